"""Free capacity of a cluster, worker by worker, from which drivers and executors take their cores and memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_adaptive.ports import Resources, Worker

Executors = Mapping[str, int]
"""Worker id -> number of executors."""


class FreeCapacity:
    """Free resources of the workers.

    The methods take the resources that a driver or an executor requests. The master chooses the worker of a driver, so the calculation places a driver where it costs the most executors. The calculation
    spreads executors over the workers, as the master does by default (`spark.deploy.spreadOutApps`).
    """

    def __init__(self, workers: Iterable[Worker]) -> None:
        """Start with all free capacity of the workers."""
        self._workers = {worker.worker_id: worker for worker in workers if worker.free.cpu_millicores > 0}
        self._free = {name: worker.free for name, worker in self._workers.items()}
        self._rotation = deque(self._free)
        self._fitting: dict[Resources, dict[str, int]] = {}
        """Number of executors or drivers that fit on each worker, by their request."""
        self._total: dict[Resources, int] = {}

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers with their remaining free capacity."""
        return tuple(replace(self._workers[name], free=free) for name, free in self._free.items())

    def executors(self, executor: Resources, driver: Resources | None = None) -> Executors:
        """Return all executors that fit.

        Args:
            executor: request of an executor.
            driver: request of a driver that is placed first; no executor fits if the driver does not fit. None without a driver.
        """
        fitting = self._fitting_on(executor)
        if driver is not None:
            worker = self._costliest_worker(driver, executor)
            if worker is None:
                return {}
            fitting = fitting | {worker: fitting[worker] - self._cost(worker, driver, executor)}
        return {name: count for name, count in fitting.items() if count}

    def fits(self, count: int, executor: Resources, driver: Resources | None = None) -> bool:
        """Return whether this number of executors fits, together with the driver if one is given."""
        if driver is not None:
            worker = self._costliest_worker(driver, executor)
            if worker is None:
                return False
            count += self._cost(worker, driver, executor)
        self._fitting_on(executor)
        return count <= self._total[executor]

    def place(self, driver: Resources, executor: Resources) -> None:
        """Take the resources of a driver; nothing if the driver fits on no worker."""
        worker = self._costliest_worker(driver, executor)
        if worker is not None:
            self._use(worker, driver)

    def take(self, count: int, executor: Resources) -> Executors:
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

    def _fitting_on(self, request: Resources) -> dict[str, int]:
        """Return the numbers of executors or drivers that fit on the workers.

        The numbers are kept up to date, because hundreds of jobs with the same requests take their shares from hundreds of workers.
        """
        if request not in self._fitting:
            fitting = {name: request.count_in(free) for name, free in self._free.items()}
            self._fitting[request], self._total[request] = fitting, sum(fitting.values())
        return self._fitting[request]

    def _use(self, worker: str, used: Resources) -> None:
        self._free[worker] = free = self._free[worker] - used
        for request, fitting in self._fitting.items():
            count = request.count_in(free)
            self._total[request] += count - fitting[worker]
            fitting[worker] = count

    def _costliest_worker(self, driver: Resources, executor: Resources) -> str | None:
        """Return the worker on which the driver costs the most executors, None if the driver fits on no worker."""
        upper_limit = max(
            math.ceil(driver.cpu_millicores / executor.cpu_millicores),
            math.ceil(driver.memory_bytes / executor.memory_bytes),
        )
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

    def _cost(self, worker: str, driver: Resources, executor: Resources) -> int:
        free = self._free[worker]
        return executor.count_in(free) - executor.count_in(free - driver)
