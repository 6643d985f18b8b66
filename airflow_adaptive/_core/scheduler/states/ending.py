"""States of a job that stops: StopWithSavepoint, and Canceling, Failing and Finished, which wait for the end of the driver.

StopWithSavepoint: the queries stop at a batch boundary, then the driver ends and the job is suspended. As in Flink, the scheduler handles a failure during
the stop only when the outcome of the stop is known.
"""

from __future__ import annotations

from typing import assert_never

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import state_transitions, steps
from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
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
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Failing,
    Finished,
    Outcome,
    SchedulerState,
    StopWithSavepoint,
    Timer,
)
from airflow_adaptive._core.scheduler.states.running import on_event_with_plan
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

# ---- StopWithSavepoint ----------------------------------------------------------------------------------------------


def on_event_stopping(state: SchedulerState, stopping: StopWithSavepoint, event: Event) -> Step:
    """Suspend the job when the queries have stopped and the driver has ended, in any order."""
    match event:
        case SavepointCompleted() | SavepointFailed():
            return _outcome(state, stopping, event)
        case QueryFailed(failure=failure):
            return _query_failed(state, stopping, event, failure)
        case DriverEnded() | DriverHeartbeatTimedOut():
            return _driver_stopped(state, stopping, event)
        case TimerFired():
            return state_transitions.kill_again(state, event, killed=True)
        case SuspendRequested():
            return steps.ignore(state, event)
        case _:
            return on_event_with_plan(state, stopping, event)


def timers_stopping(_: SchedulerState, stopping: StopWithSavepoint) -> tuple[Timer, ...]:
    """Return the time when a driver that has not stopped is killed."""
    return (Timer(name=TimerName.STOP, due=stopping.stop_deadline),)


def _outcome(state: SchedulerState, stopping: StopWithSavepoint, event: SavepointCompleted | SavepointFailed) -> Step:
    saved, failure = isinstance(event, SavepointCompleted), stopping.failure
    if failure is not None:
        cause = _despite_savepoint(failure) if saved else failure
        return state_transitions.handle_failure(state, event, stopping.plan, cause)
    if saved:
        reason = Reason(ReasonCode.SAVEPOINT_COMPLETED, "all queries stopped at a batch boundary")
        return steps.stay(steps.with_current(state, saved=True), event, reason)
    reason = Reason(ReasonCode.SAVEPOINT_FAILED, "the queries could not be stopped, and continue to run")
    return state_transitions.go_to_executing(state, event, stopping.plan, reason)


def _query_failed(state: SchedulerState, stopping: StopWithSavepoint, event: QueryFailed, failure: Failure) -> Step:
    if stopping.saved:
        return state_transitions.handle_failure(state, event, stopping.plan, _despite_savepoint(failure))
    remembered = steps.with_current(state, failure=stopping.failure or failure)
    reason = Reason(ReasonCode.QUERY_FAILED, f"{failure.summary}; the stop continues")
    return steps.stay(remembered, event, reason)


def _driver_stopped(
    state: SchedulerState, stopping: StopWithSavepoint, event: DriverEnded | DriverHeartbeatTimedOut
) -> Step:
    """Suspend the job if the driver ended as requested; otherwise handle a failure."""
    ended = isinstance(event, DriverEnded)
    if stopping.failure is None and is_unended_batch(event.failure):
        reason = Reason(ReasonCode.STOP_TIMEOUT, event.failure.message)
        return state_transitions.go_to_finished(state, event, Outcome.SUSPENDED, reason)
    if not (stopping.saved or stopping.killed):
        failure = stopping.failure or event.failure
        return state_transitions.handle_failure(state, event, stopping.plan, failure, kill=not ended)
    if not ended:
        return steps.ignore(state, event)
    how = "stopped at a batch boundary" if stopping.saved else "killed after stop_timeout"
    reason = Reason(ReasonCode.DRIVER_ENDED, f"the driver has ended: {how}")
    return state_transitions.go_to_finished(state, event, Outcome.SUSPENDED, reason)


def _despite_savepoint(cause: Failure) -> Failure:
    return Failure(
        error_class=FailureCode.SAVEPOINT_WITHOUT_STOP,
        message=f"the savepoint exists but the job could not be stopped: {cause.summary}",
        causes=(cause.error_class, *cause.causes),
    )


# ---- Canceling, Failing and Finished --------------------------------------------------------------------------------


def on_event_ending(state: SchedulerState, current: Canceling | Failing | Finished, event: Event) -> Step:
    """React to the end of the driver and to a request to cancel; ignore failures."""
    match event:
        case DriverEnded():
            return _driver_gone(state, current, event)
        case TimerFired():
            return state_transitions.kill_again(state, event)
        case CancelRequested() if isinstance(current, Failing):
            return state_transitions.go_to_canceling(state, event)
        case _:
            return steps.ignore(state, event)


def timers_ending(state: SchedulerState, current: Canceling | Failing | Finished) -> tuple[Timer, ...]:
    """Return the time when a driver that has not stopped is killed."""
    return () if state.driver is None else (Timer(name=TimerName.STOP, due=current.stop_deadline),)


def _driver_gone(state: SchedulerState, current: Canceling | Failing | Finished, event: DriverEnded) -> Step:
    match current:
        case Canceling():
            reason = Reason(ReasonCode.DRIVER_ENDED, "canceled: the driver has ended")
            return state_transitions.go_to_finished(state, event, Outcome.CANCELED, reason)
        case Failing(cause=cause):
            reason = Reason(ReasonCode.DRIVER_ENDED, f"failed: {cause.summary}")
            return state_transitions.go_to_finished(state, event, Outcome.FAILED, reason, cause)
        case Finished():
            return steps.stay(state, event, Reason(ReasonCode.DRIVER_ENDED, "the driver has ended"))
        case _:
            assert_never(current)
