"""The waiting phase by itself: the scheduler's own policy over the loop's own observation, without a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_adaptive.ports import Clock, ClusterSnapshot, ClusterUnreachableError
from airflow_adaptive.runtime.cluster.free_capacity import FreeCapacity
from airflow_adaptive.runtime.observation.slot_offers import slot_offers
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape
from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.events import SchedulingStarted, SlotsChanged, TimerFired
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.state import Deploying, SchedulerState

Snapshot = Callable[[], Awaitable[ClusterSnapshot]]
"""Looks at the cluster; raises `ClusterUnreachableError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a job would start with now; nothing is reserved.

    Attributes:
        slots: that are free beside the driver.
        parallelism: that they give.
        workers: slots per worker.
    """

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
) -> Found | None:
    """Wait as a job would; None if `until` passed.

    A master that does not answer is waited for as well: it may come up as slots may.
    """
    state = machine.step(machine.create(graph, options), SchedulingStarted(at=clock.now())).state
    while until is None or clock.now() < until:
        state = await _look(state, executor, driver, snapshot, clock)
        if isinstance(state.current, Deploying):
            workers = {offer.worker: offer.free for offer in state.offers}
            return Found(slots=state.available_slots, parallelism=state.current.plan.parallelism, workers=workers)
        await clock.sleep(options.poll_interval.total_seconds())
    return None


async def _look(
    state: SchedulerState, executor: ExecutorShape, driver: DriverShape, snapshot: Snapshot, clock: Clock
) -> SchedulerState:
    try:
        cluster = await snapshot()
        offers = slot_offers(cluster, FreeCapacity(cluster.workers).beside(driver, executor), None, executor)
    except ClusterUnreachableError:
        offers = ()
    state = machine.step(state, SlotsChanged(at=clock.now(), offers=offers)).state
    due = [timer for timer in machine.timers(state) if timer.due <= clock.now()]
    for timer in due[:1]:
        state = machine.step(state, TimerFired(at=clock.now(), timer=timer.name, version=state.version)).state
    return state
