"""Free capacity of a cluster, worker by worker, from which drivers and executors take their resources, within the limits of the cluster."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_adaptive._core.ports import Limit, LimitKind, Request, Worker
from airflow_adaptive._engine.cluster.open_limits import UNBOUNDED, OpenLimits, Shortage, not_accepted

Executors = Mapping[str, int]
"""Worker id -> number of executors."""


@dataclass(slots=True)
class _Fitting:
    """Executors or drivers of one request that fit.

    Attributes:
        by_worker: number on each worker.
        total: sum of these numbers.
    """

    by_worker: dict[str, int]
    total: int


class FreeCapacity:
    """Free resources of the workers, and what the limits still allow.

    The cluster manager chooses the worker of a driver, so the calculation places a driver where it costs the most executors. The
    calculation spreads executors over the workers, as a standalone master does by default (`spark.deploy.spreadOutApps`).
    """

    def __init__(self, workers: Iterable[Worker], limits: Iterable[Limit] = ()) -> None:
        known = tuple(workers)
        self._accepting = [worker.accepts for worker in known if not worker.is_on_demand]
        self._workers = {worker.worker_id: worker for worker in known if worker.free.cpu_millicores > 0}
        self._free = {name: worker.free for name, worker in self._workers.items()}
        self._counts = {name: UNBOUNDED if it.count is None else it.count for name, it in self._workers.items()}
        self._rotation = deque(self._workers)
        self._on_demand = {name for name, worker in self._workers.items() if worker.is_on_demand}
        self._limits = OpenLimits(limits)
        self._fitting: dict[Request, _Fitting] = {}
        """Number of executors or drivers that fit, by their request."""

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers with their remaining free capacity."""
        return tuple(
            replace(worker, free=self._free[name], count=None if worker.count is None else self._counts[name])
            for name, worker in self._workers.items()
        )

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits with what they still allow."""
        return self._limits.remaining

    def executors(self, executor: Request, driver: Request | None = None) -> Executors:
        """Return all executors that fit.

        Args:
            executor: request of an executor.
            driver: request of a driver that is placed first; no executor fits if the driver does not fit. None without a driver.
        """
        return _at_most(self._limits.allowed(executor, driver), self._fitting_after(driver, executor))

    def fits(self, count: int, executor: Request, driver: Request | None = None) -> bool:
        """Return whether this number of executors fits, together with the driver if one is given."""
        if count > self._limits.allowed(executor, driver):
            return False
        if driver is not None:
            worker = self._costliest_worker(driver, executor)
            if worker is None:
                return False
            count += self._cost(worker, driver, executor)
        return count <= self._fitting_on(executor).total

    def place(self, driver: Request, executor: Request, *, is_charged: bool = False) -> None:
        """Take the resources of a driver; nothing if the driver fits on no worker.

        Args:
            driver: request of the driver.
            executor: request of an executor of the same job.
            is_charged: whether the limits count the driver already, because it was created and waits for a worker.
        """
        worker = self._costliest_worker(driver, executor, is_charged=is_charged)
        if worker is not None:
            self._use(worker, driver)
            self._limits.charge(driver, 0 if is_charged else 1)

    def take(self, count: int, executor: Request, charged: int = 0) -> Executors:
        """Take the capacity of at most `count` executors, one executor per worker in turn; return the executors by worker.

        Args:
            count: maximum number of executors.
            executor: request of an executor.
            charged: number of executors that the limits count already, because they were created and wait for a worker.
        """
        taken: dict[str, int] = {}
        fitting = self._fitting_on(executor)
        left = wanted = min(count, charged + self._limits.allowed(executor))
        while left > 0 and fitting.total > 0:
            name = self._rotation[0]
            self._rotation.rotate(-1)
            if self._is_next(name, fitting):
                self._use(name, executor)
                taken[name] = taken.get(name, 0) + 1
                left -= 1
        self._limits.charge(executor, max(wanted - left - charged, 0))
        return taken

    def shortage(self, executor: Request, driver: Request | None = None) -> Shortage | None:
        """Return why no more executors fit than `executors` returns. None if the only reason is that the workers have too little room.

        Args:
            executor: request of an executor.
            driver: request of a driver that is placed first; None without a driver.
        """
        for request in (executor,) if driver is None else (driver, executor):
            if self._accepting and not any(accepts(request.placement) for accepts in self._accepting):
                return not_accepted(is_of_driver=request is driver)
        if not self._limits:
            return None
        if driver is not None and (shortage := self._limits.shortage(driver)) is not None:
            return replace(shortage, text=f"{shortage.text}, which is too little for the driver", is_of_driver=True)
        if driver is not None and self._costliest_worker(driver, executor) is None:
            return Shortage(LimitKind.WORKERS, text="no worker has room for the driver", is_of_driver=True)
        allowed = self._limits.allowed(executor, driver)
        if sum(self._fitting_after(driver, executor).values()) <= allowed:
            return Shortage(LimitKind.WORKERS, text="no worker has room for another executor")
        return self._limits.after(executor, allowed, driver).shortage(executor)

    def _fitting_after(self, driver: Request | None, executor: Request) -> Mapping[str, int]:
        """Return the executors that fit on each worker after the driver was placed, without the limits."""
        fitting = self._fitting_on(executor).by_worker
        if driver is None:
            return fitting
        worker = self._costliest_worker(driver, executor)
        return {} if worker is None else fitting | {worker: fitting[worker] - self._cost(worker, driver, executor)}

    def _is_next(self, name: str, fitting: _Fitting) -> bool:
        """Return whether a worker may take the next executor or driver: workers that exist come before workers on demand."""
        if not fitting.by_worker[name]:
            return False
        return name not in self._on_demand or fitting.total == sum(fitting.by_worker[each] for each in self._on_demand)

    def _fitting_on(self, request: Request) -> _Fitting:
        """Return how many executors or drivers fit on the workers.

        The numbers are kept up to date, because hundreds of jobs with the same requests take their shares from hundreds of workers.
        """
        known = self._fitting.get(request)
        if known is None:
            by_worker = {name: self._count(name, request) for name in self._workers}
            known = self._fitting[request] = _Fitting(by_worker, sum(by_worker.values()))
        return known

    def _count(self, name: str, request: Request) -> int:
        worker = self._workers[name]
        if (worker.is_on_demand and not request.may_probe) or not worker.accepts(request.placement):
            return 0
        return min(request.count_in(self._free[name]), self._counts[name])

    def _use(self, name: str, used: Request) -> None:
        self._free[name] = free = self._free[name] - used
        self._counts[name] = most = self._counts[name] - 1
        for request, fitting in self._fitting.items():
            before = fitting.by_worker[name]
            if before:
                count = min(request.count_in(free), most)
                fitting.total += count - before
                fitting.by_worker[name] = count

    def _costliest_worker(self, driver: Request, executor: Request, *, is_charged: bool = False) -> str | None:
        """Return the worker on which the driver costs the most executors, None if the driver fits on no worker."""
        upper_limit = max(
            math.ceil(driver.cpu_millicores / executor.cpu_millicores),
            math.ceil(driver.memory_bytes / executor.memory_bytes),
        )
        costliest, highest = None, -1
        fitting = self._fitting_on(driver)
        if not fitting.total or (not is_charged and not self._limits.allowed(driver)):
            return None
        for name in fitting.by_worker:
            if self._is_next(name, fitting):
                cost = self._cost(name, driver, executor)
                if cost > highest:
                    costliest, highest = name, cost
                if cost == upper_limit:
                    break
        return costliest

    def _cost(self, name: str, driver: Request, executor: Request) -> int:
        count = self._fitting_on(executor).by_worker[name]
        if not count:
            return 0
        return count - min(executor.count_in(self._free[name] - driver), self._counts[name] - 1)


def _at_most(allowed: int, fitting: Mapping[str, int]) -> Executors:
    """Return the executors by worker, without the executors that exceed a number."""
    taken: dict[str, int] = {}
    for name, count in fitting.items():
        if count and allowed > 0:
            taken[name] = min(count, allowed)
            allowed -= taken[name]
    return taken
