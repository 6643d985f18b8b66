"""Free capacity of a cluster, worker by worker, from which drivers and executors take their cores and memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_adaptive.ports import Worker
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape

Executors = Mapping[str, int]
"""Worker id -> number of executors."""

Free = tuple[int, int]
"""Free cores, and free memory in MiB."""

Shape = DriverShape | ExecutorShape


class FreeCapacity:
    """Free cores and memory of the workers.

    The master chooses the worker of a driver, so the calculation places a driver where it costs the most executors. The calculation
    spreads executors over the workers, as the master does by default (`spark.deploy.spreadOutApps`).
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        """Start with all free capacity of the workers."""
        self._workers = {worker.worker_id: worker for worker in workers if worker.cores_free > 0}
        self._free: dict[str, Free] = {name: (it.cores_free, it.memory_free_mb) for name, it in self._workers.items()}
        self._rotation = deque(self._free)
        self._fitting: dict[Shape, dict[str, int]] = {}
        """Number of executors or drivers that fit on each worker, by their size."""
        self._total: dict[Shape, int] = {}

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers with their remaining free capacity."""
        return tuple(
            replace(self._workers[name], cores_free=cores, memory_free_mb=memory_mb)
            for name, (cores, memory_mb) in self._free.items()
        )

    def executors(self, executor: ExecutorShape, driver: DriverShape | None = None) -> Executors:
        """Return all executors that fit.

        Args:
            executor: size of an executor.
            driver: driver that is placed first; no executor fits if the driver does not fit. None without a driver.
        """
        fitting = self._fitting_on(executor)
        if driver is not None:
            worker = self._costliest_worker(driver, executor)
            if worker is None:
                return {}
            fitting = fitting | {worker: fitting[worker] - self._cost(worker, driver, executor)}
        return {name: count for name, count in fitting.items() if count}

    def fits(self, count: int, executor: ExecutorShape, driver: DriverShape | None = None) -> bool:
        """Return whether this number of executors fits, together with the driver if one is given."""
        if driver is not None:
            worker = self._costliest_worker(driver, executor)
            if worker is None:
                return False
            count += self._cost(worker, driver, executor)
        self._fitting_on(executor)
        return count <= self._total[executor]

    def place(self, driver: DriverShape, executor: ExecutorShape) -> None:
        """Take the cores and the memory of a driver; nothing if the driver fits on no worker."""
        worker = self._costliest_worker(driver, executor)
        if worker is not None:
            self._use(worker, driver)

    def take(self, count: int, executor: ExecutorShape) -> Executors:
        """Take the capacity of at most `count` executors, one executor per worker in turn; return the executors by worker."""
        taken: dict[str, int] = {}
        fitting = self._fitting_on(executor)
        while count > 0 and self._total[executor] > 0:
            name = self._rotation[0]
            self._rotation.rotate(-1)
            if fitting[name]:
                self._use(name, executor)
                taken[name] = taken.get(name, 0) + 1
                count -= 1
        return taken

    def _fitting_on(self, shape: Shape) -> dict[str, int]:
        """Return the numbers of executors or drivers that fit on the workers.

        The numbers are kept up to date, because hundreds of jobs with the same sizes take their shares from hundreds of workers.
        """
        if shape not in self._fitting:
            fitting = {name: executors_in(free, shape) for name, free in self._free.items()}
            self._fitting[shape], self._total[shape] = fitting, sum(fitting.values())
        return self._fitting[shape]

    def _use(self, worker: str, used: Shape) -> None:
        self._free[worker] = free = _less(self._free[worker], used.cores, used.memory_mb)
        for shape, fitting in self._fitting.items():
            count = executors_in(free, shape)
            self._total[shape] += count - fitting[worker]
            fitting[worker] = count

    def _costliest_worker(self, driver: DriverShape, executor: ExecutorShape) -> str | None:
        """Return the worker on which the driver costs the most executors, None if the driver fits on no worker."""
        upper_limit = max(math.ceil(driver.cores / executor.cores), math.ceil(driver.memory_mb / executor.memory_mb))
        costliest, highest = None, -1
        fitting = self._fitting_on(driver)
        if not self._total[driver]:
            return None
        for name, count in fitting.items():
            if count:
                cost = self._cost(name, driver, executor)
                if cost > highest:
                    costliest, highest = name, cost
                if cost == upper_limit:
                    break
        return costliest

    def _cost(self, worker: str, driver: DriverShape, executor: ExecutorShape) -> int:
        free = self._free[worker]
        return executors_in(free, executor) - executors_in(_less(free, driver.cores, driver.memory_mb), executor)


def executors_in(free: Free, shape: Shape) -> int:
    """Return the number of executors or drivers that fit into free cores and memory; each needs both."""
    return max(min(free[0] // shape.cores, free[1] // shape.memory_mb), 0)


def _less(free: Free, cores: int, memory_mb: int) -> Free:
    return free[0] - cores, free[1] - memory_mb
