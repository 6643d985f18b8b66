"""Free capacity of a cluster, worker by worker, from which drivers and executors take their resources, within the limits of the cluster."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_adaptive._core.ports import MIB, ClusterSnapshot, Limit, LimitKind, Request, Resources, Worker
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

UNBOUNDED: Final = 1 << 60
"""Number of executors that no cluster can run."""


CORE: Final = 1000
"""Millicores of a core."""

_ORDER: Final = tuple(LimitKind)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a job gets no more executors.

    Attributes:
        kind: kind of the first limit that allows no more; WORKERS if no worker has room for more.
        name: name of the limit, "" without one.
        text: what the limit still allows, for users. The amounts change often, so the text does not count in a comparison.
        is_of_driver: whether the driver lacks room, and not an executor.
        is_of_placement: whether no worker accepts the driver or an executor, however much room the workers have.
    """

    kind: LimitKind
    name: str = ""
    text: str = field(default="", compare=False)
    is_of_driver: bool = False
    is_of_placement: bool = False


def not_accepted(*, is_of_driver: bool) -> Shortage:
    """Return the shortage of a job whose driver or executors no worker accepts."""
    role = "the driver" if is_of_driver else "an executor"
    text = f"no worker is ready that accepts {role}: see its node selector, tolerations and node affinity"
    return Shortage(LimitKind.WORKERS, text=text, is_of_driver=is_of_driver, is_of_placement=True)


class OpenLimits:
    """What the limits still allow, in the order of `LimitKind`."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = sorted(limits, key=lambda limit: _ORDER.index(limit.kind))

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return bool(self._limits)

    @property
    def remaining(self) -> tuple[Limit, ...]:
        """The limits with what they still allow."""
        return tuple(self._limits)

    def allowed(self, request: Request, before: Request | None = None) -> int:
        """Return how many drivers or executors the limits allow after the driver `before`."""
        return min((_allowed(limit, request, before) for limit in self._limits), default=UNBOUNDED)

    def charge(self, request: Request, count: int) -> None:
        """Take a number of drivers or executors from the limits."""
        if count:
            self._limits = [_charged(limit, limit.charge(request), count) for limit in self._limits]

    def shortage(self, request: Request) -> Shortage | None:
        """Return the first limit that does not allow a driver or an executor, None if all limits allow it."""
        for limit in self._limits:
            if not _allowed(limit, request, None):
                return Shortage(limit.kind, limit.name, f"{_subject(limit)} allows {_lacking(limit, request)} more")
        return None

    def after(self, request: Request, count: int, before: Request | None) -> OpenLimits:
        """Return what the limits allow after a number of executors, and after the driver `before` if there is one."""
        limits = OpenLimits(self._limits)
        if before is not None:
            limits.charge(before, 1)
        limits.charge(request, count)
        return limits


def _allowed(limit: Limit, request: Request, before: Request | None) -> int:
    left = limit if before is None else _charged(limit, limit.charge(before), 1)
    counts = (max(free // taken, 0) for free, taken, _ in _dimensions(left, request))
    return min(counts, default=UNBOUNDED)


def _lacking(limit: Limit, request: Request) -> str:
    return " and ".join(text for free, taken, text in _dimensions(limit, request) if free < taken)


def _dimensions(limit: Limit, request: Request) -> list[tuple[int, int, str]]:
    """Return for each dimension that a limit bounds: what the limit allows, what the request takes, and the allowed amount as text."""
    charge = limit.charge(request)
    if charge is None:
        return []
    cpu, memory = (max(free or 0, 0) for free in (limit.cpu_millicores, limit.memory_bytes))
    dimensions = (
        (limit.cpu_millicores, charge.cpu_millicores, f"{cpu / 1000:g} core{'' if cpu == CORE else 's'}"),
        (limit.memory_bytes, charge.memory_bytes, f"{memory // MIB:,} MiB"),
        (limit.count, 1, "no driver or executor"),
    )
    return [(free, taken, text) for free, taken, text in dimensions if free is not None and taken]


def _subject(limit: Limit) -> str:
    match limit.kind:
        case LimitKind.WORKERS:
            return "the capacity of the workers"
        case LimitKind.CAP:
            return "the cap of the connection"
        case _:
            return f"{limit.kind} `{limit.name}`"


def _charged(limit: Limit, charge: Resources | None, count: int) -> Limit:
    if charge is None:
        return limit
    return replace(
        limit,
        cpu_millicores=_less(limit.cpu_millicores, count * charge.cpu_millicores),
        memory_bytes=_less(limit.memory_bytes, count * charge.memory_bytes),
        count=_less(limit.count, count),
    )


def _less(free: int | None, taken: int) -> int | None:
    return None if free is None else free - taken


Executors = Mapping[str, int]
"""Worker id -> number of executors."""


@dataclass(slots=True)
class _Fitting:
    """Number of executors or drivers of one request that fit on each worker, and its sum."""

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
        """Return all executors that fit beside a driver that is placed first; none if the driver does not fit."""
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
        """Take the resources of a driver whose executors have this request; nothing if the driver fits on no worker.

        The limits count a driver already (`is_charged`) that was created and waits for a worker.
        """
        worker = self._costliest_worker(driver, executor, is_charged=is_charged)
        if worker is not None:
            self._use(worker, driver)
            self._limits.charge(driver, 0 if is_charged else 1)

    def take(self, count: int, executor: Request, charged: int = 0) -> Executors:
        """Take the capacity of at most `count` executors, one executor per worker in turn; return the executors by worker.

        The limits count those already (`charged`) that were created and wait for a worker.
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
        """Return why no more executors fit than `executors` returns. None if the only reason is that the workers have too little room."""
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


def all_slots(cluster: ClusterSnapshot, executor: Request, cores: int) -> int | None:
    """Return the slots that all workers of a cluster have together; None if it does not show all workers. An executor has `cores` slots."""
    if any(worker.is_on_demand for worker in cluster.workers) or (cluster.limits and not cluster.workers):
        return None
    accepting = [worker for worker in cluster.workers if worker.accepts(executor.placement)]
    return sum(executor.count_in(worker.total) for worker in accepting) * cores


REMEDIES: Final[Mapping[LimitKind, str]] = {
    LimitKind.WORKERS: "add workers",
    LimitKind.QUOTA: "raise the quota",
    LimitKind.QUEUE: "raise the share of the queue",
    LimitKind.CAP: "raise the cap",
}


class ShortageReports:
    """Reports each change of the limit or of the slots once. The amounts that a limit allows change with each poll."""

    def __init__(self) -> None:
        self._reported: tuple[Shortage, int] | None = None

    def reason(self, shortage: Shortage | None, slots: int) -> Reason | None:
        """Return the reason to report for a job that holds or can have these slots, None if there is no shortage or it is reported."""
        current = None if shortage is None else (shortage, slots)
        is_reported, self._reported = current == self._reported, current
        if shortage is None or is_reported:
            return None
        return Reason(ReasonCode.SLOTS_PENDING, describe(shortage, slots))

    @property
    def remedy(self) -> str:
        """Why the job gets no more slots, and what to do; "" if it gets all that it can use."""
        return "" if self._reported is None else remedy(self._reported[0])


def describe(shortage: Shortage, slots: int) -> str:
    """Return the slots of a job, and why the job gets no more."""
    return f"{slots} slot{'' if slots == 1 else 's'}: {shortage.text}"


def remedy(shortage: Shortage) -> str:
    """Return why a job gets no more slots, and what to do."""
    if shortage.is_of_placement:
        return f"{shortage.text}: correct them, or let workers have the labels that they require and no other taints"
    other = "a smaller driver" if shortage.is_of_driver else "lower bounds or smaller executors"
    return f"{shortage.text}: {REMEDIES[shortage.kind]}, or declare {other}"
