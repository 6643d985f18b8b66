"""Events about the driver: what follows from the driver status, from the driver process and from a missing heartbeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import Action, Capability, DriverState, DriverStatus, FailureReport
from airflow_adaptive._core.scheduler import events
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_unended_batch
from airflow_adaptive._core.scheduler.policies.known_causes import name_artifact
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Executing,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._engine.directive import action
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat, committed_batches
from airflow_adaptive._engine.observation.observer import GRACE_PERIOD, JobObservation

LEASE_MARGIN = timedelta(seconds=10)
"""Time after the end of a lease within which the driver certainly ends.

The watchdog of the driver (`job.control.fence`) kills the Python process and the JVM within 6 s.
"""

ROOM_TIMEOUT = timedelta(seconds=15)
"""Time after which a standby that waits for a worker is given up. The cluster starts a driver at once if a worker has room."""

KILLED_IN_BATCH = (
    "the driver had to leave its machine (SIGTERM), and was killed before its batch had ended: allow more time, by "
    "terminationGracePeriodSeconds of the pod, or spark.worker.driverTerminateTimeout of the workers"
)

MOST_MS = 1e12
"""Longest credible duration: a longer one (thirty years) is a wrong measurement."""


def driver_events(
    state: SchedulerState,
    observation: JobObservation,
    heartbeat: DriverHeartbeat,
    now: datetime,
) -> Iterator[Event]:
    """Yield all events about the driver of the current epoch; none without a driver."""
    if state.driver is not None:
        yield from _identified(state, observation, now)
        leaves = None if observation.submission is None else observation.submission.leaves
        counts = action(state) is not Action.STOP if leaves else isinstance(state.current, Executing)
        if leaves is not None and bool(leaves) != bool(state.driver.leaves) and counts:
            yield events.MoveAnnounced(at=now, epoch=state.epoch, reason=leaves)
        yield from _status_events(state, observation, heartbeat, now)
        yield from _process_events(state, observation, heartbeat, now)


def standby_events(state: SchedulerState, observation: JobObservation, now: datetime) -> Iterator[Event]:
    """Yield the newest event about the standby, if there is one."""
    driver, status, submission = state.standby.driver, observation.standby_status, observation.standby_submission
    if driver is None:
        return
    if submission is not None and submission.state.over:
        code = FailureCode.DRIVER_MOVED if submission.leaves else FailureCode.DRIVER_LOST
        failure = Failure(error_class=code, message=_end_of_process(submission, driver.submission_id))
        if status is not None and status.failure is not None:
            failure = _failure(status.failure, status)
        yield events.DriverEnded(at=now, epoch=driver.epoch, failure=failure)
    elif (useless := _why_useless(state, observation, now)) is not None:
        yield events.DriverHeartbeatTimedOut(at=now, epoch=driver.epoch, failure=useless)
    elif status is not None:
        known = driver.submission_id or status.submission_id
        if known is not None and (known, status.application_id) != (driver.submission_id, driver.application_id):
            yield events.DriverSubmitted(
                at=now, epoch=driver.epoch, submission_id=known, application_id=status.application_id
            )
        if status.state is DriverState.PREPARED and not state.standby.is_prepared:
            yield events.DriverPrepared(at=now, epoch=driver.epoch)


def _why_useless(state: SchedulerState, observation: JobObservation, now: datetime) -> Failure | None:
    """Return why the standby cannot take over, None if it can. It needs no proof of its end: the journal has never named it."""
    status, submission, since = observation.standby_status, observation.standby_submission, state.standby.since or now
    if status is not None and status.state is DriverState.FAILED:
        return _failure(status.failure, status)
    takes_over = state.standby.is_prepared and (state.driver is None or action(state) is Action.STOP)
    if submission is not None and submission.leaves and not takes_over:
        return Failure(error_class=FailureCode.DRIVER_MOVED, message=submission.leaves)
    if submission is not None and submission.state is SubmissionState.UNKNOWN:
        text = ": ".join(filter(None, ("the cluster cannot account for the standby", submission.message)))
        return Failure(error_class=FailureCode.DRIVER_LOST, message=text)
    if status is not None and observation.standby_silence >= state.options.driver_heartbeat_timeout:
        text = f"the standby has written no status for {observation.standby_silence.total_seconds():g} s"
        return Failure(error_class=FailureCode.DRIVER_HEARTBEAT_TIMEOUT, message=text)
    # A driver that has a worker starts there, which may take as long as the download of its image.
    waits = submission is not None and submission.state is SubmissionState.SUBMITTED and status is None
    if submission is None or not waits or now - since < ROOM_TIMEOUT:
        return None
    if not submission.can_start:  # for example an image that does not exist
        return Failure(error_class=FailureCode.DRIVER_NOT_STARTED, message=submission.message)
    if submission.worker_address:
        return None
    text = ": ".join(filter(None, ("the cluster has no room for one more driver", submission.message)))
    return Failure(error_class=FailureCode.NO_ROOM_FOR_STANDBY, message=text)


def _identified(state: SchedulerState, observation: JobObservation, now: datetime) -> Iterator[Event]:
    """Yield the submission id of the driver and, after its registration, the application id."""
    driver, status = state.driver, observation.status
    if driver is None or status is None:
        return
    submission, application = driver.submission_id or status.submission_id, driver.application_id
    if observation.cluster is not None and status.application_id in observation.cluster.granted:
        application = status.application_id
    if submission is not None and (submission, application) != (driver.submission_id, driver.application_id):
        yield events.DriverSubmitted(at=now, epoch=state.epoch, submission_id=submission, application_id=application)


def _status_events(
    state: SchedulerState,
    observation: JobObservation,
    heartbeat: DriverHeartbeat,
    now: datetime,
) -> Iterator[Event]:
    """Yield the events that follow from the driver status: commits, and the progress of the plan."""
    status = observation.status
    if status is None:
        return
    epoch, plan = state.epoch, state.plan
    is_new, committed = status.sequence != heartbeat.sequence, committed_batches(status)
    # A loop that continues the job may have missed the status that counted the first batch.
    if committed and (not state.proved.has_committed or (is_new and committed > (heartbeat.committed or 0))):
        yield events.BatchCommitted(at=now, epoch=epoch)
    elif is_new and _is_idle(state, status):
        yield events.BatchCommitted(at=now, epoch=epoch, is_idle=True)
    match status.state, state.current:
        case DriverState.RUNNING, Deploying() if plan is not None and status.version == plan.version:
            yield events.PlanActivated(
                at=now,
                epoch=epoch,
                version=status.version,
                trigger_interval=_trigger_interval(status),
                downtime=_duration(status.downtime_ms),
                vertices_read=status.vertices_read,
                notice=status.notice,
                cannot_repartition="" if status.spark is None else status.spark.lack(Capability.REPARTITION),
            )
        case _, Deploying() if plan is not None and status.rejected_version == plan.version:
            yield events.PlanRejected(
                at=now, epoch=epoch, version=plan.version, failure=_failure(status.rejection, status)
            )
        case DriverState.FAILED, Deploying() | Executing() | RestartingLocally() | StopWithSavepoint() if (
            plan is not None
            and status.version == plan.version
            and not is_unended_batch(_failure(status.failure, status))
        ):
            yield events.QueryFailed(at=now, epoch=epoch, failure=_reported(status, observation.submission))
            if isinstance(state.current, StopWithSavepoint):
                yield events.SavepointFailed(at=now, epoch=epoch)
        case DriverState.STOPPED, StopWithSavepoint(saved=False):
            yield events.SavepointCompleted(at=now, epoch=epoch)
        case DriverState.FINISHED, _:
            yield events.JobCompleted(at=now, epoch=epoch)
        case _:
            pass


def _process_events(
    state: SchedulerState,
    observation: JobObservation,
    heartbeat: DriverHeartbeat,
    now: datetime,
) -> Iterator[Event]:
    """Yield the events that follow from the state of the driver process, and from a heartbeat timeout."""
    epoch, options = state.epoch, state.options
    elapsed = _time_without_heartbeat(state, observation, heartbeat)
    if (move := _move(state, observation)) is not None:
        # Something may end each new driver of the job: without a complete trigger, that counts as a failure, so that backoff and limit apply.
        has_reported = observation.status is not None and committed_batches(observation.status) > 0
        has_worked = has_reported or (state.driver is not None and state.driver.has_worked)
        yield events.DriverEnded(
            at=now,
            epoch=epoch,
            failure=move,
            in_order=True,
            is_confirmed=observation.is_driver_over,
            is_move=has_worked,
        )
    elif _hands_over(state, observation):
        # The driver has ended its queries and never runs one again, so its process need not have ended.
        failure = Failure(error_class=FailureCode.DRIVER_LOST, message="the driver has stopped as requested")
        is_over = observation.is_driver_over
        yield events.DriverEnded(at=now, epoch=epoch, failure=failure, in_order=True, is_confirmed=is_over)
    elif observation.is_driver_over:
        failure, in_order = _end_of_driver(state, observation), _has_stopped(observation)
        yield events.DriverEnded(at=now, epoch=epoch, failure=failure, in_order=in_order)
    elif elapsed >= options.driver_lease_timeout + LEASE_MARGIN and _is_unaccounted(observation.submission):
        message = f"the driver has written no status for {elapsed.total_seconds():g} s: its lease has expired"
        failure = Failure(
            error_class=FailureCode.DRIVER_LEASE_OVER, message=f"{message}{_known_cause(state, observation)}"
        )
        # While the directive allows queries, a driver that starts late could still run one: the timeout stops the driver first.
        over = events.DriverHeartbeatTimedOut if action(state) is Action.RUN else events.DriverEnded
        yield over(at=now, epoch=epoch, failure=failure)
    elif elapsed >= options.driver_heartbeat_timeout and _must_write(state):
        message = (
            f"the driver has written no status for {elapsed.total_seconds():g} s{_known_cause(state, observation)}"
        )
        failure = Failure(error_class=FailureCode.DRIVER_HEARTBEAT_TIMEOUT, message=message)
        yield events.DriverHeartbeatTimedOut(at=now, epoch=epoch, failure=failure)


def _must_write(state: SchedulerState) -> bool:
    """Return whether a missing heartbeat ends the driver. Elsewhere, a deadline of the state does."""
    current = state.current
    return isinstance(current, Executing | RestartingLocally) or (isinstance(current, Restarting) and current.is_move)


def may_be_dead(state: SchedulerState, observation: JobObservation, heartbeat: DriverHeartbeat) -> bool:
    """Return whether the cluster cannot account for the driver, and no later heartbeat has shown that the driver lives."""
    since = observation.unaccounted_for
    if since is None:
        return False
    return since < 2 * GRACE_PERIOD or _time_without_heartbeat(state, observation, heartbeat) >= GRACE_PERIOD


def _hands_over(state: SchedulerState, observation: JobObservation) -> bool:
    """Return whether the driver has stopped so that the prepared driver can take over."""
    is_to_stop = isinstance(state.current, Restarting) and action(state) is Action.STOP
    return is_to_stop and state.replacement is not None and _never_writes_again(observation.status)


def _never_writes_again(status: DriverStatus | None) -> bool:
    """Return whether the driver has stopped for good, although its process may still be ending."""
    if status is None or status.state is not DriverState.STOPPED:
        return False
    # A batch that cannot be interrupted may still run, and a script of its own may still start a query.
    return status.is_managed and not any(query.active for query in status.queries)


def _move(state: SchedulerState, observation: JobObservation) -> Failure | None:
    """Return why the driver has stopped although the scheduler has not requested it, None if it has stopped for another reason."""
    status, submission = observation.status, observation.submission
    if (
        status is None
        or not status.is_moving
        or status.state is not DriverState.STOPPED
        or action(state) is Action.STOP
    ):
        return None
    if not observation.is_driver_over and not _never_writes_again(status):
        return None
    by = f", {submission.ended_by}" if submission is not None and submission.ended_by else ""
    message = f"the driver had to leave its machine (SIGTERM{by}), and has ended its queries"
    return Failure(error_class=FailureCode.DRIVER_LOST, message=message)


def _has_stopped(observation: JobObservation) -> bool:
    """Return whether the driver had stopped its queries before its end."""
    status, submission = observation.status, observation.submission
    is_clean = submission is not None and submission.state is SubmissionState.FINISHED
    return is_clean or (status is not None and status.state in (DriverState.STOPPED, DriverState.FINISHED))


def _known_cause(state: SchedulerState, observation: JobObservation) -> str:
    """Return what is known about the cause of a missing status, as the end of a text; "" if nothing is known."""
    unanswered = "" if state.driver is None else state.driver.unanswered
    if unanswered and observation.status is None:
        return f"; whether the cluster accepted the driver is unknown: {unanswered}"
    return f"; {observation.cluster_report}" if observation.cluster_report else ""


def _time_without_heartbeat(
    state: SchedulerState, observation: JobObservation, heartbeat: DriverHeartbeat
) -> timedelta:
    """Return the time since the newest heartbeat, at the moment at which the driver status was read."""
    at = observation.status_read_at
    return timedelta(0) if at is None else at - heartbeat.updated(state, observation.status, at).received_at


def _is_unaccounted(submission: SubmissionStatus | None) -> bool:
    """Return whether the cluster cannot tell if the driver process exists."""
    return submission is None or submission.state is SubmissionState.UNKNOWN


def _end_of_driver(state: SchedulerState, observation: JobObservation) -> Failure:
    """Return the failure that explains the end of the driver process."""
    status, submission = observation.status, observation.submission
    if status is not None and status.failure is not None:
        return _reported(status, submission)
    if submission is None:
        return Failure(error_class=FailureCode.DRIVER_LOST, message="the driver's process has ended")
    if status is not None and status.is_moving and status.state is not DriverState.STOPPED:
        return Failure(
            error_class=FailureCode.DRIVER_LOST, message=f"{KILLED_IN_BATCH}; {_end_of_process(submission, None)}"
        )
    if status is not None and status.state is DriverState.STOPPED and action(state) is not Action.STOP:
        message = "no loop wrote to the journal for orphan_timeout: the driver stopped by itself, at a batch boundary"
        return Failure(error_class=FailureCode.DRIVER_ORPHANED, message=message)
    if status is None and submission.state is SubmissionState.FINISHED:
        advice = (
            "the script ended without a streaming query: start a query in the script, or call AdaptiveJob(...).run(); if the script is a "
            "batch, set job_type='batch'"
        )
        return Failure(error_class=FailureCode.SCRIPT_WITHOUT_JOB, message=advice)
    name = "" if state.driver is None else state.driver.submission_id
    return Failure(error_class=FailureCode.DRIVER_LOST, message=_end_of_process(submission, name))


def _reported(status: DriverStatus, submission: SubmissionStatus | None) -> Failure:
    """Return the failure that a driver reported. If others end the driver, the failure is a consequence, whatever the driver noticed of it first."""
    failure = _failure(status.failure, status)
    if submission is not None and submission.ended_by:
        causes = (failure.error_class, *failure.causes)
        return Failure(
            error_class=FailureCode.DRIVER_LOST, message=f"{submission.ended_by}; {failure.summary}", causes=causes
        )
    if failure.error_class != FailureCode.SPARK_CONTEXT_STOPPED or submission is None or not submission.message:
        return failure
    return replace(failure, message=f"{failure.message}; {submission.message}")


def _end_of_process(submission: SubmissionStatus, name: str | None) -> str:
    reason = f": {submission.message}" if submission.message else ""
    on_worker = submission.worker_address and f"the output of driver {name} is on {submission.worker_address}"
    output = (
        on_worker
        if submission.log_command is None
        else submission.log_command and f"its output: {submission.log_command}"
    )
    return "; ".join(filter(None, [f"the driver's process has ended ({submission.state}){reason}", output]))


def _failure(report: FailureReport | None, status: DriverStatus) -> Failure:
    if report is None:
        return Failure(error_class=FailureCode.DRIVER_LOST, message="the driver reports a failure without a reason")
    failure = Failure(error_class=report.error_class, message=report.message, causes=report.causes)
    return failure if status.spark is None else name_artifact(failure, status.spark.version)


def _is_idle(state: SchedulerState, status: DriverStatus) -> bool:
    """Return whether all queries are between two batches: a rescale at this moment costs as little as one after a commit."""
    is_executing = isinstance(state.current, Executing)
    return is_executing and bool(status.queries) and all(query.idle for query in status.queries)


def _trigger_interval(status: DriverStatus) -> timedelta | None:
    """Return the longest trigger interval of the job's queries, None if no query has one."""
    known = [_duration(query.trigger_interval_ms) for query in status.queries]
    return max((interval for interval in known if interval is not None), default=None)


def _duration(ms: float | None) -> timedelta | None:
    """Return a duration from the driver status; None also for a value that is not credible."""
    return timedelta(milliseconds=ms) if ms is not None and 0 <= ms < MOST_MS else None
