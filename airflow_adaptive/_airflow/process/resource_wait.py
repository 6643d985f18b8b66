"""Waits for the slots of a job on a cluster that an Airflow connection names. The scheduler decides, as for the job, when they suffice."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_adaptive._airflow.process.process_resources import ConnectionIds, ProcessResources
from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.ports import (
    Clock,
    ClusterClient,
    ClusterRefusedError,
    ClusterSnapshot,
    ClusterUnreachableError,
    PortError,
    Request,
)
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.allocator import required_slots
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.events import SchedulingStarted, SlotsChanged, TimerFired
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.state import Deploying, SchedulerState
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.cluster.free_capacity import FreeCapacity, describe
from airflow_adaptive._engine.observation.observed_events import slot_offers
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedResources:
    """What a job needs of the cluster, as in its `JobSpec`."""

    graph: JobGraph
    options: Options
    executor: ExecutorShape
    driver: DriverShape

    @property
    def requests(self) -> tuple[Request, Request]:
        """Requests of an executor and of the driver, which may wait for capacity that does not exist yet."""
        return replace(self.executor.request, may_probe=True), replace(self.driver.request, may_probe=True)


async def wait_for_slots(wanted: dict[str, Any], connections: ConnectionIds, until: str) -> dict[str, Any]:
    """Wait until the cluster has the slots of a job. A cluster that accepts no driver ends the wait, because its slots never come.

    Args:
        wanted: `WantedResources`, encoded.
        connections: Airflow connections of the cluster.
        until: deadline, in ISO 8601.

    Returns:
        The result of `wait_for_resources`, or the `status` "error" with a message.
    """
    process = ProcessResources.current()
    try:
        address = await process.store_access.read_connection(connections.spark, connections.address)
    except (PortError, ValueError) as error:
        return {"status": "error", "message": with_code(error)}
    needed: WantedResources = decode(WantedResources, wanted)
    async with process.cluster(connections, address) as (client, shared):
        if (refusal := await _refusal(client, needed)) is not None:
            return {"status": "error", "message": refusal}
        return await wait_for_resources(
            needed,
            lambda: shared.unclaimed(client, needed.options.poll_interval),
            SystemClock(),
            datetime.fromisoformat(until),
        )


async def _refusal(client: ClusterClient, wanted: WantedResources) -> str | None:
    """Return why the cluster accepts no driver, or never has room for the job; None if it does, or if it does not answer now."""
    try:
        await client.check(wanted.driver.request, wanted.executor.request)
    except ClusterUnreachableError as error:
        log.info("The cluster cannot be checked now: %s", error)
    except ClusterRefusedError as error:
        return with_code(error)
    return None


async def wait_for_resources(
    wanted: WantedResources, snapshot: Callable[[], Awaitable[ClusterSnapshot]], clock: Clock, until: datetime
) -> dict[str, Any]:
    """Wait until a job could start.

    A cluster that is unreachable counts as a cluster without slots, because both may change.

    Args:
        wanted: what the job needs.
        snapshot: polls the cluster; raises `ClusterUnreachableError`.
        clock: the time.
        until: deadline.

    Returns:
        `status`: "timeout", or "found" with the slots beside the driver, their parallelism, and the slots of each worker. They are not reserved.
    """
    state = machine.step(machine.create(wanted.graph, wanted.options), SchedulingStarted(at=clock.now())).state
    reports = OnceLogger(log, logging.INFO)
    while clock.now() < until:
        try:
            cluster = await snapshot()
        except ClusterUnreachableError:
            cluster = ClusterSnapshot(workers=())
        state = _step(state, cluster, wanted, clock.now())
        if isinstance(state.current, Deploying):
            return {
                "status": "found",
                "slots": state.available_slots,
                "parallelism": dict(state.current.plan.parallelism),
                "workers": {offer.worker: offer.free for offer in state.offers},
            }
        reports.report(_shortage(state, cluster, wanted))
        await clock.sleep(wanted.options.poll_interval.total_seconds())
    return {"status": "timeout"}


def _step(state: SchedulerState, cluster: ClusterSnapshot, wanted: WantedResources, now: datetime) -> SchedulerState:
    free = FreeCapacity(cluster.workers, cluster.limits).executors(*wanted.requests)
    offers = slot_offers(cluster, free, None, wanted.executor)
    state = machine.step(state, SlotsChanged(at=now, offers=offers)).state
    due = [timer for timer in machine.timers(state) if timer.due <= now]
    for timer in due[:1]:
        state = machine.step(state, TimerFired(at=now, timer=timer.name, version=state.version)).state
    return state


def _shortage(state: SchedulerState, cluster: ClusterSnapshot, wanted: WantedResources) -> str | None:
    """Return which limit of the cluster keeps the job from its slots, None if the limits are not the reason."""
    if state.available_slots >= required_slots(state.job, state.requirements):
        return None
    shortage = FreeCapacity(cluster.workers, cluster.limits).shortage(*wanted.requests)
    return None if shortage is None else describe(shortage, state.available_slots)
