"""Waits for resources as a job would: the scheduler and the loop's calculation of slots, without a job."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_adaptive._core.ports import Clock, ClusterSnapshot, ClusterUnreachableError, Request
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.allocator import required_slots
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import SchedulingStarted, SlotsChanged, TimerFired
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.state import Deploying, SchedulerState
from airflow_adaptive._engine.cluster.free_capacity import FreeCapacity, describe
from airflow_adaptive._engine.observation.events import slot_offers
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape

log = logging.getLogger(__name__)

Snapshot = Callable[[], Awaitable[ClusterSnapshot]]
"""Polls the cluster; raises `ClusterUnreachableError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableResources:
    """Slots, beside the driver, with which a job would start now, by worker, and their parallelism. They are not reserved."""

    slots: int
    parallelism: Mapping[str, int]
    workers: Mapping[str, int]


async def wait_for_resources(
    graph: JobGraph,
    options: Options,
    executor: ExecutorShape,
    driver: DriverShape,
    snapshot: Snapshot,
    clock: Clock,
    until: datetime | None = None,
) -> AvailableResources | None:
    """Wait until a job could start; return None if the time `until` has passed.

    A cluster that is unreachable counts as a cluster without slots, because both may change.
    """
    state = machine.step(machine.create(graph, options), SchedulingStarted(at=clock.now())).state
    reports = OnceLogger(log, logging.INFO)
    while until is None or clock.now() < until:
        cluster = await _cluster(snapshot)
        state = _step(state, cluster, executor, driver, clock.now())
        if isinstance(state.current, Deploying):
            workers = {offer.worker: offer.free for offer in state.offers}
            return AvailableResources(
                slots=state.available_slots, parallelism=state.current.plan.parallelism, workers=workers
            )
        reports.report(_shortage(state, cluster, executor, driver))
        await clock.sleep(options.poll_interval.total_seconds())
    return None


async def _cluster(snapshot: Snapshot) -> ClusterSnapshot:
    try:
        return await snapshot()
    except ClusterUnreachableError:
        return ClusterSnapshot(workers=())


def _step(
    state: SchedulerState, cluster: ClusterSnapshot, executor: ExecutorShape, driver: DriverShape, now: datetime
) -> SchedulerState:
    free = FreeCapacity(cluster.workers, cluster.limits).executors(*_requests(executor, driver))
    offers = slot_offers(cluster, free, None, executor)
    state = machine.step(state, SlotsChanged(at=now, offers=offers)).state
    due = [timer for timer in machine.timers(state) if timer.due <= now]
    for timer in due[:1]:
        state = machine.step(state, TimerFired(at=now, timer=timer.name, version=state.version)).state
    return state


def _shortage(
    state: SchedulerState, cluster: ClusterSnapshot, executor: ExecutorShape, driver: DriverShape
) -> str | None:
    """Return which limit of the cluster keeps the job from its slots, None if the limits are not the reason."""
    if state.available_slots >= required_slots(state.job, state.requirements):
        return None
    shortage = FreeCapacity(cluster.workers, cluster.limits).shortage(*_requests(executor, driver))
    return None if shortage is None else describe(shortage, state.available_slots)


def _requests(executor: ExecutorShape, driver: DriverShape) -> tuple[Request, Request]:
    """Return the requests of a job that may wait for capacity that does not exist yet."""
    return replace(executor.request, may_probe=True), replace(driver.request, may_probe=True)
