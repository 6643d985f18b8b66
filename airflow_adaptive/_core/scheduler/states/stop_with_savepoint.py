"""StopWithSavepoint: the queries stop at a batch boundary, then the driver ends and the job is suspended.

As in Flink, the scheduler handles a failure during the stop only when the outcome of the stop is known.
"""

from __future__ import annotations

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    QueryFailed,
    SavepointCompleted,
    SavepointFailed,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_unended_batch
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState, StopWithSavepoint, Timer
from airflow_adaptive._core.scheduler.state_transitions import recovery, start, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.states import running
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(state: SchedulerState, stopping: StopWithSavepoint, event: Event) -> Step:
    """Suspend the job when the queries have stopped and the driver has ended, in any order."""
    match event:
        case SavepointCompleted() | SavepointFailed():
            return _outcome(state, stopping, event)
        case QueryFailed(failure=failure):
            return _query_failed(state, stopping, event, failure)
        case DriverEnded() | DriverHeartbeatTimedOut():
            return _driver_gone(state, stopping, event)
        case TimerFired():
            return stop.kill_again(state, event, killed=True)
        case SuspendRequested():
            return steps.ignore(state, event)
        case _:
            return running.on_event(state, stopping, event)


def timers(_: SchedulerState, stopping: StopWithSavepoint) -> tuple[Timer, ...]:
    """Return the time when a driver that has not stopped is killed."""
    return (Timer(name=TimerName.STOP, due=stopping.stop_deadline),)


def _outcome(state: SchedulerState, stopping: StopWithSavepoint, event: SavepointCompleted | SavepointFailed) -> Step:
    saved, failure = isinstance(event, SavepointCompleted), stopping.failure
    if failure is not None:
        cause = _despite_savepoint(failure) if saved else failure
        return recovery.handle_failure(state, event, stopping.plan, cause)
    if saved:
        reason = Reason(ReasonCode.SAVEPOINT_COMPLETED, "all queries stopped at a batch boundary")
        return steps.stay(steps.with_current(state, saved=True), event, reason)
    reason = Reason(ReasonCode.SAVEPOINT_FAILED, "the queries could not be stopped, and continue to run")
    return start.go_to_executing(state, event, stopping.plan, reason)


def _query_failed(state: SchedulerState, stopping: StopWithSavepoint, event: QueryFailed, failure: Failure) -> Step:
    if stopping.saved:
        return recovery.handle_failure(state, event, stopping.plan, _despite_savepoint(failure))
    remembered = steps.with_current(state, failure=stopping.failure or failure)
    reason = Reason(ReasonCode.QUERY_FAILED, f"{failure.summary}; the stop continues")
    return steps.stay(remembered, event, reason)


def _driver_gone(
    state: SchedulerState, stopping: StopWithSavepoint, event: DriverEnded | DriverHeartbeatTimedOut
) -> Step:
    """Suspend the job if the driver ended as requested; otherwise handle a failure."""
    ended = isinstance(event, DriverEnded)
    if stopping.failure is None and is_unended_batch(event.failure):
        reason = Reason(ReasonCode.STOP_TIMEOUT, event.failure.message)
        return stop.go_to_finished(state, event, Outcome.SUSPENDED, reason)
    if not (stopping.saved or stopping.killed):
        failure = stopping.failure or event.failure
        return recovery.handle_failure(state, event, stopping.plan, failure, kill=not ended)
    if not ended:
        return steps.ignore(state, event)
    how = "stopped at a batch boundary" if stopping.saved else "killed after stop_timeout"
    reason = Reason(ReasonCode.DRIVER_ENDED, f"the driver has ended: {how}")
    return stop.go_to_finished(state, event, Outcome.SUSPENDED, reason)


def _despite_savepoint(cause: Failure) -> Failure:
    return Failure(
        error_class=FailureCode.SAVEPOINT_WITHOUT_STOP,
        message=f"the savepoint exists but the job could not be stopped: {cause.summary}",
        causes=(cause.error_class, *cause.causes),
    )
