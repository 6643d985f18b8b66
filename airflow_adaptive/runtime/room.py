"""What is free on a cluster, worker by worker, while it is being given away on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from airflow_adaptive.ports import Worker
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape

Executors = Mapping[str, int]
"""Id of a worker -> executors on it."""


class Room:
    """Free cores and memory.

    Which worker gets a driver is the master's choice, so a driver is put where it costs most executors; executors are
    spread over the workers, as the master does by default (`spark.deploy.spreadOutApps`).
    """

    def __init__(self, workers: Sequence[Worker]) -> None:
        """All that is free on these workers."""
        self._workers = {worker.worker_id: worker for worker in workers if worker.cores_free > 0}

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers on which something is left."""
        return tuple(self._workers.values())

    def executors(self, executor: ExecutorShape) -> int:
        """Executors that fit."""
        return sum(fitting(worker, executor) for worker in self._workers.values())

    def beside(self, driver: DriverShape, executor: ExecutorShape) -> int:
        """Executors that fit when the driver has been placed; -1 if there is no place for the driver."""
        place = self._dearest(driver, executor)
        return -1 if place is None else self.executors(executor) - self._cost(place, driver, executor)

    def place(self, driver: DriverShape, executor: ExecutorShape) -> bool:
        """Take a driver's cores and memory; if it fits nowhere, it takes nothing yet."""
        place = self._dearest(driver, executor)
        if place is not None:
            self._put(_less(place, driver.cores, driver.memory_mb))
        return place is not None

    def take(self, count: int, executor: ExecutorShape) -> Executors:
        """Take the place of at most `count` executors; returns where."""
        fits = {name: fitting(worker, executor) for name, worker in self._workers.items()} if count > 0 else {}
        most_free = [(-self._workers[name].cores_free, name) for name, number in fits.items() if number]
        heapify(most_free)
        taken: dict[str, int] = {}
        for _ in range(count):
            if not most_free:
                break
            free, name = heappop(most_free)
            taken[name] = taken.get(name, 0) + 1
            if taken[name] < fits[name]:
                heappush(most_free, (free + executor.cores, name))
        for name, number in taken.items():
            self._put(_less(self._workers[name], number * executor.cores, number * executor.memory_mb))
        return taken

    def _dearest(self, driver: DriverShape, executor: ExecutorShape) -> Worker | None:
        """The worker on which the driver costs most executors, None if it fits nowhere."""
        places = [
            worker
            for worker in self._workers.values()
            if worker.cores_free >= driver.cores and worker.memory_free_mb >= driver.memory_mb
        ]
        return max(places, key=lambda place: self._cost(place, driver, executor), default=None)

    def _cost(self, place: Worker, driver: DriverShape, executor: ExecutorShape) -> int:
        return fitting(place, executor) - fitting(_less(place, driver.cores, driver.memory_mb), executor)

    def _put(self, worker: Worker) -> None:
        if worker.cores_free > 0:
            self._workers[worker.worker_id] = worker
        else:
            del self._workers[worker.worker_id]


def fitting(worker: Worker, executor: ExecutorShape) -> int:
    """Executors that fit on a worker: a free core without memory is no place for one."""
    return max(min(worker.cores_free // executor.cores, worker.memory_free_mb // executor.memory_mb), 0)


def _less(worker: Worker, cores: int, memory_mb: int) -> Worker:
    return replace(worker, cores_free=worker.cores_free - cores, memory_free_mb=worker.memory_free_mb - memory_mb)
