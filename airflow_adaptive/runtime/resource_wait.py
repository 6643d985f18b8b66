"""Waits for resources as a job would: the scheduler and the loop's calculation of slots, without a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
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
"""Polls the cluster; raises `ClusterUnreachableError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableResources:
    """Resources with which a job would start now. The resources are not reserved.

    Attributes:
        slots: number of free slots, in addition to the driver.
        parallelism: parallelism of every vertex on these slots.
        workers: free slots per worker.
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
) -> AvailableResources | None:
    """Wait until a job could start; return None if the time `until` has passed.

    A cluster that is unreachable counts as a cluster without slots, because both may change.
    """
    state = machine.step(machine.create(graph, options), SchedulingStarted(at=clock.now())).state
    while until is None or clock.now() < until:
        state = await _poll(state, executor, driver, snapshot, clock)
        if isinstance(state.current, Deploying):
            workers = {offer.worker: offer.free for offer in state.offers}
            return AvailableResources(
                slots=state.available_slots, parallelism=state.current.plan.parallelism, workers=workers
            )
        await clock.sleep(options.poll_interval.total_seconds())
    return None


async def _poll(
    state: SchedulerState, executor: ExecutorShape, driver: DriverShape, snapshot: Snapshot, clock: Clock
) -> SchedulerState:
    try:
        cluster = await snapshot()
        capacity = FreeCapacity(cluster.workers, cluster.limits)
        fitting = capacity.executors(replace(executor.request, may_probe=True), replace(driver.request, may_probe=True))
        offers = slot_offers(cluster, fitting, None, executor)
    except ClusterUnreachableError:
        offers = ()
    state = machine.step(state, SlotsChanged(at=clock.now(), offers=offers)).state
    due = [timer for timer in machine.timers(state) if timer.due <= clock.now()]
    for timer in due[:1]:
        state = machine.step(state, TimerFired(at=clock.now(), timer=timer.name, version=state.version)).state
    return state
