"""What is free on a cluster, worker by worker, while it is being given away on paper."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_adaptive.ports import Worker
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape

Executors = Mapping[str, int]
"""Id of a worker -> executors on it."""

Free = tuple[int, int]
"""Cores, and memory in MiB."""


class FreeCapacity:
    """Free cores and memory.

    Which worker gets a driver is the master's choice, so a driver is put where it costs most executors; executors are
    spread over the workers, as the master does by default (`spark.deploy.spreadOutApps`).
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        """All that is free on these workers."""
        self._workers = {worker.worker_id: worker for worker in workers if worker.cores_free > 0}
        self._free: dict[str, Free] = {name: (it.cores_free, it.memory_free_mb) for name, it in self._workers.items()}
        self._turns = deque(self._free)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers with what is left on them."""
        return tuple(
            replace(self._workers[name], cores_free=cores, memory_free_mb=memory_mb)
            for name, (cores, memory_mb) in self._free.items()
        )

    def executors(self, executor: ExecutorShape) -> Executors:
        """All executors that fit."""
        return _executors(self._free, executor)

    def beside(self, driver: DriverShape, executor: ExecutorShape) -> Executors:
        """All executors that fit once the driver has been placed; none if there is no place for the driver."""
        place = self._dearest(driver, executor)
        if place is None:
            return {}
        left = dict(self._free)
        left[place] = _less(left[place], driver.cores, driver.memory_mb)
        return _executors(left, executor)

    def holds(self, count: int, executor: ExecutorShape, driver: DriverShape | None = None) -> bool:
        """Whether so many executors fit, and the driver (if there is one to be placed) with them."""
        if driver is not None:
            place = self._dearest(driver, executor)
            if place is None:
                return False
            count += self._cost(place, driver, executor)
        for free in self._free.values():
            count -= fitting(free, executor)
            if count <= 0:
                return True
        return count <= 0

    def place(self, driver: DriverShape, executor: ExecutorShape) -> None:
        """Take a driver's cores and memory; if it fits nowhere, it takes nothing yet."""
        place = self._dearest(driver, executor)
        if place is not None:
            self._free[place] = _less(self._free[place], driver.cores, driver.memory_mb)

    def take(self, count: int, executor: ExecutorShape) -> Executors:
        """Take the places of at most `count` executors, one on each worker in turn; returns where."""
        taken: dict[str, int] = {}
        refused = 0
        while count > 0 and refused < len(self._turns):
            name = self._turns[0]
            self._turns.rotate(-1)
            if fitting(self._free[name], executor):
                self._free[name] = _less(self._free[name], executor.cores, executor.memory_mb)
                taken[name] = taken.get(name, 0) + 1
                count, refused = count - 1, 0
            else:
                refused += 1
        return taken

    def _dearest(self, driver: DriverShape, executor: ExecutorShape) -> str | None:
        """The worker on which the driver costs most executors, None if it fits nowhere."""
        most = max(math.ceil(driver.cores / executor.cores), math.ceil(driver.memory_mb / executor.memory_mb))
        dearest, highest = None, -1
        for name, free in self._free.items():
            if free[0] >= driver.cores and free[1] >= driver.memory_mb:
                cost = self._cost(name, driver, executor)
                if cost > highest:
                    dearest, highest = name, cost
                if cost == most:
                    break
        return dearest

    def _cost(self, place: str, driver: DriverShape, executor: ExecutorShape) -> int:
        free = self._free[place]
        return fitting(free, executor) - fitting(_less(free, driver.cores, driver.memory_mb), executor)


def fitting(free: Free, executor: ExecutorShape) -> int:
    """Executors that fit into so much: a free core without memory is no place for one."""
    return max(min(free[0] // executor.cores, free[1] // executor.memory_mb), 0)


def _executors(free: Mapping[str, Free], executor: ExecutorShape) -> Executors:
    fits = {name: fitting(left, executor) for name, left in free.items()}
    return {name: number for name, number in fits.items() if number}


def _less(free: Free, cores: int, memory_mb: int) -> Free:
    return free[0] - cores, free[1] - memory_mb
