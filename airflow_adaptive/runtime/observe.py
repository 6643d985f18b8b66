"""The world as events: what cluster, driver, inbox and clock show, compared with what the scheduler knows.

Level-triggered: a loop that restarts looks at the same world and finds the same events. Only two things are remembered
between looks, and harmlessly lost with the process: when the driver's report last changed, and how many batches it counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.job.documents import DriverState, FailureReport, Status
from airflow_adaptive.ports import ClusterSnapshot, Inbox, SubmissionState, SubmissionStatus, Wish, Worker
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape
from airflow_adaptive.scheduler import events
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.events import Event, SlotOffer
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements, accept
from airflow_adaptive.scheduler.state import (
    Canceling,
    Deploying,
    Executing,
    Finished,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
)

DRIVER_LOST = "DRIVER_LOST"
DRIVER_SILENT = "DRIVER_SILENT"
SCRIPT_WITHOUT_JOB = "SCRIPT_WITHOUT_JOB"
LEASE_OVER = "DRIVER_LEASE_OVER"

LEASE_MARGIN = timedelta(seconds=10)
"""A driver whose lease is over needs up to 6.25 s to end by its watchdog, and its JVM another (`job.watchdog`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One look at the world; None where nothing is known now.

    Attributes:
        cluster: workers and grants.
        status: the driver's report, of whatever epoch.
        submission: what the cluster knows of the driver process.
        inbox: what people want.
    """

    cluster: ClusterSnapshot | None = None
    status: Status | None = None
    submission: SubmissionStatus | None = None
    inbox: Inbox = Inbox()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered between looks.

    Attributes:
        epoch: of the driver that it is about.
        sequence: of the newest report.
        heard: when the report last changed, by our clock.
        committed: batches counted in the newest report, None before the first.
    """

    epoch: int
    heard: datetime
    sequence: int = -1
    committed: int | None = None

    def after(self, state: SchedulerState, status: Status | None, now: datetime) -> Memory:
        """The memory after a look."""
        memory = self if self.epoch == state.epoch else Memory(epoch=state.epoch, heard=now)
        if status is None or status.sequence == memory.sequence:
            return memory
        return replace(memory, sequence=status.sequence, heard=now, committed=_committed(status))


def own_status(state: SchedulerState, nonce: str, status: Status | None) -> Status | None:
    """The report if it comes from the driver of the current epoch, else None."""
    if status is None or state.driver is None:
        return None
    return status if (status.epoch, status.nonce) == (state.epoch, nonce) else None


def observe(
    state: SchedulerState,
    world: World,
    memory: Memory,
    now: datetime,
    draw: Callable[[], float],
    executor: ExecutorShape,
    driver: DriverShape,
) -> Iterator[Event]:
    """What has happened since the scheduler last looked; `world.status` must be the own one (`own_status`)."""
    slots = list(_slots(state, world, now, executor, driver))
    told = list(_told(state, world, memory, now, draw))
    # Of a driver that has ended its end is the news, not the slots that went with it; else slots come first, so that
    # whatever the driver's report leads to is decided on the slots that there are.
    yield from told + slots if _is_over(world.submission) else slots + told
    yield from _wanted(state, world.inbox, now)


def _slots(
    state: SchedulerState, world: World, now: datetime, executor: ExecutorShape, driver: DriverShape
) -> Iterator[Event]:
    placed = state.driver is not None and not _is_over(world.submission)
    # What a driver holds is unknown, not nothing, as long as its report can't be read.
    unknown = placed and world.status is None and state.held_slots > 0
    if world.cluster is None or unknown:
        return
    offers = slot_offers(world.cluster, world.status if placed else None, executor, None if placed else driver)
    if offers != state.offers:
        yield events.SlotsChanged(at=now, offers=offers)


def _told(
    state: SchedulerState, world: World, memory: Memory, now: datetime, draw: Callable[[], float]
) -> Iterator[Event]:
    if state.driver is not None:
        yield from _reported(state, world.status, memory, now, draw)
        yield from _process(state, world, memory, now, draw)


# ---- slots ----------------------------------------------------------------------------------------------------------


def slot_offers(
    cluster: ClusterSnapshot, status: Status | None, executor: ExecutorShape, driver: DriverShape | None
) -> tuple[SlotOffer, ...]:
    """Slots per worker that the job holds or could have.

    Args:
        cluster: workers and grants.
        status: the living driver's report, None without one.
        executor: size of an executor.
        driver: size of the driver that must be placed first, None if it is placed already.
    """
    held = _held(cluster, status)
    free = {worker.worker_id: _free_slots(worker, executor) for worker in cluster.workers}
    if driver is not None:
        free = _less_driver(cluster, free, executor, driver)
    addresses = {worker.worker_id: worker.address for worker in cluster.workers}
    offers = [
        SlotOffer(worker=worker, held=held.get(worker, 0), free=free[worker], address=addresses[worker])
        for worker in sorted(free)
    ]
    granted = 0 if status is None else cluster.granted.get(status.application_id or "", 0)
    arriving = granted - sum(held.values())
    if arriving > 0:
        offers.append(SlotOffer(worker="", free=arriving))
    return tuple(offer for offer in offers if offer.held or offer.free)


def _held(cluster: ClusterSnapshot, status: Status | None) -> Mapping[str, int]:
    """Slots of registered executors by worker.

    A report is older than the cluster's word: executors on a worker that is not alive any more are lost, and so are those
    whose cores the worker has free again.
    """
    workers = {worker.address: worker for worker in cluster.workers}
    held: dict[str, int] = {}
    for registered in () if status is None else status.executors:
        worker = workers.get(registered.worker)
        if worker is not None:
            reported = held.get(worker.worker_id, 0) + registered.cores
            held[worker.worker_id] = min(reported, worker.cores - worker.cores_free)
    return held


def _free_slots(worker: Worker, executor: ExecutorShape, cores_taken: int = 0, memory_taken: int = 0) -> int:
    """Slots of the executors that fit: a free core without memory is no slot."""
    by_cores = (worker.cores_free - cores_taken) // executor.cores
    by_memory = (worker.memory_free_mb - memory_taken) // executor.memory_mb
    return max(min(by_cores, by_memory), 0) * executor.cores


def _less_driver(
    cluster: ClusterSnapshot, free: Mapping[str, int], executor: ExecutorShape, driver: DriverShape
) -> dict[str, int]:
    """The slots left when the driver has been placed where it costs most: the master chooses the worker, not we."""
    left = {
        worker.worker_id: _free_slots(worker, executor, driver.cores, driver.memory_mb)
        for worker in cluster.workers
        if worker.cores_free >= driver.cores and worker.memory_free_mb >= driver.memory_mb
    }
    if not left:
        return dict.fromkeys(free, 0)
    dearest = max(sorted(left), key=lambda worker: free[worker] - left[worker])
    return {**free, dearest: left[dearest]}


# ---- the driver -----------------------------------------------------------------------------------------------------


def _reported(
    state: SchedulerState, status: Status | None, memory: Memory, now: datetime, draw: Callable[[], float]
) -> Iterator[Event]:
    """What the driver's report says about the plan that it was given."""
    if status is None:
        return
    epoch, plan = state.epoch, state.plan
    if state.driver is not None and state.driver.submission_id is None and status.submission_id is not None:
        yield events.DriverSubmitted(at=now, epoch=epoch, submission_id=status.submission_id)
    if status.sequence != memory.sequence and (_committed(status) > (memory.committed or 0) or _is_idle(state, status)):
        yield events.BatchCommitted(at=now, epoch=epoch)
    match status.state, state.current:
        case DriverState.RUNNING, Deploying() if plan is not None and status.version == plan.version:
            yield events.PlanInForce(
                at=now, epoch=epoch, version=status.version, trigger_interval=_trigger_interval(status)
            )
        case DriverState.FAILED, Deploying() | Executing() | RestartingLocally() | StopWithSavepoint() if (
            plan is not None and status.version == plan.version
        ):
            yield events.QueryFailed(at=now, epoch=epoch, failure=_failure(status.failure), draw=draw())
            if isinstance(state.current, StopWithSavepoint):
                yield events.SavepointFailed(at=now, epoch=epoch)
        case DriverState.STOPPED, StopWithSavepoint(saved=False):
            yield events.SavepointCompleted(at=now, epoch=epoch)
        case DriverState.FINISHED, _:
            yield events.JobCompleted(at=now, epoch=epoch)
        case _:
            pass


def _process(
    state: SchedulerState, world: World, memory: Memory, now: datetime, draw: Callable[[], float]
) -> Iterator[Event]:
    """What the cluster says about the driver's process, and what its silence says."""
    epoch, silent, options = state.epoch, now - memory.heard, state.options
    if _is_over(world.submission):
        yield events.DriverEnded(at=now, epoch=epoch, failure=_end(state, world), draw=draw())
    elif silent >= options.driver_lease_timeout + LEASE_MARGIN and _unaccounted(state, world.submission):
        message = f"nothing was heard of the driver for {silent.total_seconds():g} s: its lease has run out"
        failure = Failure(error_class=LEASE_OVER, message=message)
        yield events.DriverEnded(at=now, epoch=epoch, failure=failure, draw=draw())
    elif silent >= options.driver_heartbeat_timeout and isinstance(state.current, Executing | RestartingLocally):
        message = f"the driver has reported nothing for {silent.total_seconds():g} s"
        failure = Failure(error_class=DRIVER_SILENT, message=message)
        yield events.DriverSilent(at=now, epoch=epoch, failure=failure, draw=draw())


def _unaccounted(state: SchedulerState, submission: SubmissionStatus | None) -> bool:
    """Whether nobody can tell if the driver's process lives, while it is not meant to run a query."""
    unknown = submission is None or submission.state is SubmissionState.UNKNOWN
    return unknown and not isinstance(state.current, Executing | RestartingLocally)


def _is_over(submission: SubmissionStatus | None) -> bool:
    return submission is not None and submission.state.over


def _end(state: SchedulerState, world: World) -> Failure:
    if world.status is not None and world.status.failure is not None:
        return _failure(world.status.failure)
    submission, name = world.submission, "" if state.driver is None else state.driver.submission_id
    if submission is None:
        return Failure(error_class=DRIVER_LOST, message="the driver's process has ended")
    if world.status is None and submission.state is SubmissionState.FINISHED:
        advice = "the script ended without AdaptiveJob(...).run(): make that its last line"
        return Failure(error_class=SCRIPT_WITHOUT_JOB, message=advice)
    said = f" {submission.message}" if submission.message else ""
    output = (
        f"; see its stderr in folder {name} of worker {submission.worker_address}" if submission.worker_address else ""
    )
    return Failure(
        error_class=DRIVER_LOST, message=f"the driver's process has ended ({submission.state}){said}{output}"
    )


def _failure(report: FailureReport | None) -> Failure:
    if report is None:
        return Failure(error_class=DRIVER_LOST, message="the driver reports a failure without a reason")
    return Failure(error_class=report.error_class, message=report.message, causes=report.causes)


def _is_idle(state: SchedulerState, status: Status) -> bool:
    """Whether the job is between two batches now: as good a moment for a rescale as right after a commit."""
    waits = isinstance(state.current, Executing)
    return waits and bool(status.queries) and all(query.idle for query in status.queries)


def _trigger_interval(status: Status) -> timedelta | None:
    """The longest of the job's queries."""
    known = [query.trigger_interval_ms for query in status.queries if query.trigger_interval_ms is not None]
    return timedelta(milliseconds=max(known)) if known else None


def _committed(status: Status) -> int:
    return sum(query.committed for query in status.queries)


# ---- people ---------------------------------------------------------------------------------------------------------


def _wanted(state: SchedulerState, inbox: Inbox, now: datetime) -> Iterator[Event]:
    match inbox.wish:
        case Wish.CANCEL if not isinstance(state.current, Canceling | Finished):
            yield events.CancelRequested(at=now)
        case Wish.SUSPEND if not isinstance(state.current, StopWithSavepoint | Canceling | Finished):
            yield events.SuspendRequested(at=now)
        case _:
            pass
    wanted = _requirements(state, inbox)
    newest = state.requirements if state.declaration is None else state.declaration.requirements
    if wanted is not None and wanted != newest:
        yield events.RequirementsChanged(at=now, requirements=wanted)


def _requirements(state: SchedulerState, inbox: Inbox) -> Requirements | None:
    """The overrides as accepted, None if there are none or they can't hold (whoever wrote them was told)."""
    if not inbox.requirements:
        return None
    asked = {name: ParallelismRange(lower, upper) for name, (lower, upper) in inbox.requirements.items()}
    try:
        return accept(asked, default_requirements(state.job, state.options), state.job.max_parallelism)
    except RequirementsError:
        return None
