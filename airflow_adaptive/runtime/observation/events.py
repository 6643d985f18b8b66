"""The world as events: what cluster, driver, inbox and clock show, compared with what the scheduler knows.

Level-triggered: a loop that restarts looks at the same world and finds the same events. Only two things are remembered
between looks: how many batches the driver's report counted, which is harmlessly lost with the process; and when it last
changed, which goes into the log with each document, so that a driver's silence outlives the loops that hear it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive.job.protocol.documents import Action, DriverState, DriverStatus, FailureReport
from airflow_adaptive.ports import ClusterSnapshot, ControlRequests, DesiredState, SubmissionState, SubmissionStatus
from airflow_adaptive.runtime.cluster.free_capacity import Executors
from airflow_adaptive.runtime.directive import action
from airflow_adaptive.runtime.requirements.sources import ResolvedRequirements, newest
from airflow_adaptive.runtime.spec import ExecutorShape
from airflow_adaptive.scheduler import events
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.events import Event, SlotOffer
from airflow_adaptive.scheduler.machine import default_requirements
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.requirements import ParallelismRange, accept
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
DRIVER_ORPHANED = "DRIVER_ORPHANED"
SCRIPT_WITHOUT_JOB = "SCRIPT_WITHOUT_JOB"
LEASE_OVER = "DRIVER_LEASE_OVER"

LEASE_MARGIN = timedelta(seconds=10)
"""A driver whose lease is over needs up to 6.25 s to end by its watchdog, and its JVM another (`job.control.watchdog`)."""

MOST_MS = 1e12
"""What lasts longer, thirty years, was measured wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """One look at the world; None where nothing is known now.

    Attributes:
        cluster: workers and grants.
        share: executors by worker that this job may have beside those that it has.
        status: the driver's report, of whatever epoch.
        submission: what the cluster knows of the driver process.
        inbox: what people want.
        ruling: bounds that the job is to have, None if those that it has.
        listened: when the report was read, None if the driver's silence can't be judged by this look.
    """

    cluster: ClusterSnapshot | None = None
    share: Executors = field(default_factory=dict)
    status: DriverStatus | None = None
    submission: SubmissionStatus | None = None
    control_requests: ControlRequests = ControlRequests()
    ruling: ResolvedRequirements | None = None
    listened: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverHeartbeat:
    """What is remembered between looks.

    Attributes:
        epoch: of the driver that it is about.
        sequence: of the newest report.
        heard: when the report was first seen that is the newest.
        committed: batches counted in the newest report, None before the first.
    """

    epoch: int
    heard: datetime
    sequence: int = -1
    committed: int | None = None

    @classmethod
    def recalled(cls, told: Mapping[str, Any], epoch: int, now: datetime) -> DriverHeartbeat:
        """The memory of an earlier loop as its document tells it; a new one if that is about another driver."""
        try:
            if told["epoch"] == epoch:
                return cls(epoch=epoch, heard=min(datetime.fromisoformat(told["at"]), now), sequence=told["sequence"])
        except (KeyError, TypeError, ValueError):
            pass  # an older version did not tell
        return cls(epoch=epoch, heard=now)

    def told(self) -> dict[str, Any]:
        """What the next loop must know, for a document."""
        return {"epoch": self.epoch, "sequence": self.sequence, "at": self.heard.isoformat()}

    def after(self, state: SchedulerState, status: DriverStatus | None, now: datetime) -> DriverHeartbeat:
        """The memory after a look."""
        memory = self if self.epoch == state.epoch else DriverHeartbeat(epoch=state.epoch, heard=now)
        if status is None or status.sequence == memory.sequence:
            return memory
        return replace(memory, sequence=status.sequence, heard=now, committed=_committed(status))


def own_status(state: SchedulerState, nonce: str, status: DriverStatus | None) -> DriverStatus | None:
    """The report if it comes from the driver of the current epoch, else None."""
    if status is None or state.driver is None:
        return None
    return status if (status.epoch, status.nonce) == (state.epoch, nonce) else None


def observe(
    state: SchedulerState,
    world: JobObservation,
    memory: DriverHeartbeat,
    now: datetime,
    executor: ExecutorShape,
) -> Iterator[Event]:
    """What has happened since the scheduler last looked; `world.status` must be the own one (`own_status`)."""
    slots = list(_slots(state, world, now, executor))
    told = list(_told(state, world, memory, now))
    wanted = list(_wanted(state, world, now))
    if state.plan is None:
        yield from wanted  # a job that is yet to be planned is planned within the bounds that it is to have
    # Of a driver that has ended its end is the news, not the slots that went with it; else slots come first, so that
    # whatever the driver's report leads to is decided on the slots that there are.
    yield from told + slots if _is_over(world.submission) else slots + told
    yield from _asked(state, world.control_requests, now)
    if state.plan is not None:
        yield from wanted


def _slots(state: SchedulerState, world: JobObservation, now: datetime, executor: ExecutorShape) -> Iterator[Event]:
    placed = state.driver is not None and not _is_over(world.submission)
    # What a driver holds is unknown, not nothing, as long as its report can't be read.
    unknown = placed and world.status is None and state.held_slots > 0
    if world.cluster is None or unknown:
        return
    offers = slot_offers(world.cluster, world.share, world.status if placed else None, executor)
    if offers != state.offers:
        yield events.SlotsChanged(at=now, offers=offers)


def _told(state: SchedulerState, world: JobObservation, memory: DriverHeartbeat, now: datetime) -> Iterator[Event]:
    if state.driver is not None:
        yield from _named(state, world, now)
        yield from _reported(state, world.status, memory, now)
        yield from _process(state, world, memory, now)


# ---- slots ----------------------------------------------------------------------------------------------------------


def slot_offers(
    cluster: ClusterSnapshot, share: Executors, status: DriverStatus | None, executor: ExecutorShape
) -> tuple[SlotOffer, ...]:
    """Slots per worker that the job holds or could have.

    Args:
        cluster: workers and grants.
        share: executors by worker that this job may have beside those that it has.
        status: the living driver's report, None without one.
        executor: size of an executor.
    """
    held = _held(cluster, status)
    offers = [
        SlotOffer(
            worker=worker.worker_id,
            held=held.get(worker.worker_id, 0),
            free=share.get(worker.worker_id, 0) * executor.cores,
            address=worker.address,
        )
        for worker in cluster.workers
        if worker.worker_id in held or worker.worker_id in share
    ]
    granted = 0 if status is None else cluster.granted.get(status.application_id or "", 0)
    arriving = granted - sum(held.values())
    if arriving > 0:
        offers.append(SlotOffer(worker="", free=arriving))
    return tuple(offer for offer in offers if offer.held or offer.free)


def _held(cluster: ClusterSnapshot, status: DriverStatus | None) -> Mapping[str, int]:
    """Slots of registered executors by worker.

    A report is older than the cluster's word: executors on a worker that is not alive any more are lost, and so are those
    whose cores the worker has free again.
    """
    if status is None or not status.executors:
        return {}
    workers = {worker.address: worker for worker in cluster.workers}
    held: dict[str, int] = {}
    for registered in status.executors:
        worker = workers.get(registered.worker)
        if worker is not None:
            reported = held.get(worker.worker_id, 0) + registered.cores
            held[worker.worker_id] = min(reported, worker.cores - worker.cores_free)
    return held


# ---- the driver -----------------------------------------------------------------------------------------------------


def _named(state: SchedulerState, world: JobObservation, now: datetime) -> Iterator[Event]:
    """What the cluster calls the driver and, from its registration on, the application."""
    driver, status = state.driver, world.status
    if driver is None or status is None:
        return
    submission, application = driver.submission_id or status.submission_id, driver.application_id
    if world.cluster is not None and status.application_id in world.cluster.granted:
        application = status.application_id
    if submission is not None and (submission, application) != (driver.submission_id, driver.application_id):
        yield events.DriverSubmitted(at=now, epoch=state.epoch, submission_id=submission, application_id=application)


def _reported(
    state: SchedulerState,
    status: DriverStatus | None,
    memory: DriverHeartbeat,
    now: datetime,
) -> Iterator[Event]:
    """What the driver's report says about the plan that it was given."""
    if status is None:
        return
    epoch, plan = state.epoch, state.plan
    if status.sequence != memory.sequence and (_committed(status) > (memory.committed or 0) or _is_idle(state, status)):
        yield events.BatchCommitted(at=now, epoch=epoch)
    match status.state, state.current:
        case DriverState.RUNNING, Deploying() if plan is not None and status.version == plan.version:
            yield events.PlanActivated(
                at=now,
                epoch=epoch,
                version=status.version,
                trigger_interval=_trigger_interval(status),
                downtime=_duration(status.downtime_ms),
                reads=status.vertices_read,
                note=status.notice,
            )
        case _, Deploying() if plan is not None and status.rejected_version == plan.version:
            yield events.PlanRefused(at=now, epoch=epoch, version=plan.version, failure=_failure(status.rejection))
        case DriverState.FAILED, Deploying() | Executing() | RestartingLocally() | StopWithSavepoint() if (
            plan is not None and status.version == plan.version
        ):
            yield events.QueryFailed(at=now, epoch=epoch, failure=_failure(status.failure))
            if isinstance(state.current, StopWithSavepoint):
                yield events.SavepointFailed(at=now, epoch=epoch)
        case DriverState.STOPPED, StopWithSavepoint(saved=False):
            yield events.SavepointCompleted(at=now, epoch=epoch)
        case DriverState.FINISHED, _:
            yield events.JobCompleted(at=now, epoch=epoch)
        case _:
            pass


def _process(state: SchedulerState, world: JobObservation, memory: DriverHeartbeat, now: datetime) -> Iterator[Event]:
    """What the cluster says about the driver's process, and what its silence says."""
    epoch, options = state.epoch, state.options
    silent = _silence(state, world, memory)
    if _is_over(world.submission):
        yield events.DriverEnded(at=now, epoch=epoch, failure=_end(state, world))
    elif silent >= options.driver_lease_timeout + LEASE_MARGIN and _unaccounted(world.submission):
        message = f"nothing was heard of the driver for {silent.total_seconds():g} s: its lease has run out"
        failure = Failure(error_class=LEASE_OVER, message=message)
        # One that was late would begin a query as long as the log lets it, so that comes to an end before the next look.
        over = events.DriverHeartbeatTimedOut if action(state) is Action.RUN else events.DriverEnded
        yield over(at=now, epoch=epoch, failure=failure)
    elif silent >= options.driver_heartbeat_timeout and isinstance(state.current, Executing | RestartingLocally):
        message = f"the driver has reported nothing for {silent.total_seconds():g} s"
        failure = Failure(error_class=DRIVER_SILENT, message=message)
        yield events.DriverHeartbeatTimedOut(at=now, epoch=epoch, failure=failure)


def _silence(state: SchedulerState, world: JobObservation, memory: DriverHeartbeat) -> timedelta:
    """For how long nothing had been heard of the driver when its report was read."""
    at = world.listened
    return timedelta(0) if at is None else at - memory.after(state, world.status, at).heard


def _unaccounted(submission: SubmissionStatus | None) -> bool:
    """Whether nobody can tell if the driver's process lives."""
    return submission is None or submission.state is SubmissionState.UNKNOWN


def _is_over(submission: SubmissionStatus | None) -> bool:
    return submission is not None and submission.state.over


def _end(state: SchedulerState, world: JobObservation) -> Failure:
    if world.status is not None and world.status.failure is not None:
        return _failure(world.status.failure)
    submission, name = world.submission, "" if state.driver is None else state.driver.submission_id
    if submission is None:
        return Failure(error_class=DRIVER_LOST, message="the driver's process has ended")
    if world.status is not None and world.status.state is DriverState.STOPPED and action(state) is not Action.STOP:
        patience = "no loop had looked after it for orphan_timeout: it stopped by itself, at a batch boundary"
        return Failure(error_class=DRIVER_ORPHANED, message=patience)
    if world.status is None and submission.state is SubmissionState.FINISHED:
        advice = "the script ended without a streaming query: let it start one, or call AdaptiveJob(...).run()"
        return Failure(error_class=SCRIPT_WITHOUT_JOB, message=advice)
    said = f": {submission.message}" if submission.message else ""
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


def _is_idle(state: SchedulerState, status: DriverStatus) -> bool:
    """Whether the job is between two batches now: as good a moment for a rescale as right after a commit."""
    waits = isinstance(state.current, Executing)
    return waits and bool(status.queries) and all(query.idle for query in status.queries)


def _trigger_interval(status: DriverStatus) -> timedelta | None:
    """The longest of the job's queries."""
    known = [_duration(query.trigger_interval_ms) for query in status.queries]
    return max((interval for interval in known if interval is not None), default=None)


def _duration(ms: float | None) -> timedelta | None:
    """None also for what is no possible duration."""
    return timedelta(milliseconds=ms) if ms is not None and 0 <= ms < MOST_MS else None


def _committed(status: DriverStatus) -> int:
    return sum(query.committed for query in status.queries)


# ---- people ---------------------------------------------------------------------------------------------------------


def _asked(state: SchedulerState, control_requests: ControlRequests, now: datetime) -> Iterator[Event]:
    match control_requests.desired_state:
        case DesiredState.CANCELED if not isinstance(state.current, Canceling | Finished):
            yield events.CancelRequested(at=now)
        case DesiredState.SUSPENDED if not isinstance(state.current, StopWithSavepoint | Canceling | Finished):
            yield events.SuspendRequested(at=now)
        case _:
            pass


def _wanted(state: SchedulerState, world: JobObservation, now: datetime) -> Iterator[Event]:
    ruling = world.ruling
    if ruling is not None and ruling.requirements != newest(state):
        yield events.RequirementsChanged(at=now, requirements=ruling.requirements, by=ruling.source.description)


def requested(state: SchedulerState, ruling: ResolvedRequirements | None) -> SchedulerState:
    """The job with the bounds that it is to have: it bids for these, and so learns of their slots before it obeys."""
    return state if ruling is None else replace(state, requirements=ruling.requirements)


def refusal(state: SchedulerState, control_requests: ControlRequests) -> str | None:
    """Why overrides can't hold, None if they can: whoever wrote them into the inbox was not told."""
    try:
        for asked in (control_requests.requirements, control_requests.calendar):
            _require_acceptable(state, asked)
    except RequirementsError as error:
        return f"{error} They are ignored."
    return None


def _require_acceptable(state: SchedulerState, asked: Mapping[str, tuple[int, int]]) -> None:
    bounds = {name: ParallelismRange(lower, upper) for name, (lower, upper) in asked.items()}
    if bounds:
        accept(bounds, default_requirements(state.job, state.options), state.job.max_parallelism)
