"""StopWithSavepoint: the queries stop at a batch boundary, then the driver ends and the job is suspended.

As in Flink, a failure in between is decided on only when the outcome of the stop is known.
"""

from __future__ import annotations

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverSilent,
    Event,
    JobCompleted,
    QueryFailed,
    SavepointCompleted,
    SavepointFailed,
    SuspendRequested,
    TimerFired,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.state import Outcome, SchedulerState, StopWithSavepoint

SAVEPOINT_WITHOUT_STOP = "SAVEPOINT_WITHOUT_STOP"


def on_event(state: SchedulerState, stopping: StopWithSavepoint, event: Event) -> Step:
    """Suspended when the queries have stopped and the driver is gone, in any order."""
    match event:
        case SavepointCompleted() if stopping.failure is not None:
            return _failed_after_savepoint(state, stopping, event, stopping.failure)
        case SavepointCompleted():
            return moves.stay(moves.with_current(state, saved=True), event, "all queries stopped at a batch boundary")
        case SavepointFailed():
            return _not_stopped(state, stopping, event)
        case QueryFailed(failure=failure) if stopping.saved:
            return _failed_after_savepoint(state, stopping, event, failure)
        case QueryFailed(failure=failure):
            return moves.stay(moves.with_current(state, failure=failure), event, f"{failure}; the stop goes on")
        case DriverEnded() | DriverSilent():
            return _driver_gone(state, stopping, event)
        case JobCompleted():
            return moves.finish(state, event, Outcome.FINISHED, "all queries have ended")
        case TimerFired():
            return moves.kill_again(state, event, killed=True)
        case CancelRequested():
            return moves.cancel(state, event)
        case SuspendRequested(with_savepoint=False):
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked, at once")
        case _:
            return moves.ignore(state, event)


def _driver_gone(state: SchedulerState, stopping: StopWithSavepoint, event: DriverEnded | DriverSilent) -> Step:
    if isinstance(event, DriverEnded) and (stopping.saved or stopping.killed):
        how = "stopped at a batch boundary" if stopping.saved else "killed after stop_timeout"
        return moves.finish(state, event, Outcome.SUSPENDED, f"the driver is gone: {how}")
    failure = stopping.failure or event.failure
    return moves.handle_failure(state, event, stopping.plan, failure, event.draw, kill=isinstance(event, DriverSilent))


def _not_stopped(state: SchedulerState, stopping: StopWithSavepoint, event: SavepointFailed) -> Step:
    if stopping.failure is None:
        return moves.execute(state, event, stopping.plan, "the queries could not be stopped; they run on")
    return moves.handle_failure(state, event, stopping.plan, stopping.failure, moves.NEUTRAL_DRAW)


def _failed_after_savepoint(
    state: SchedulerState, stopping: StopWithSavepoint, event: SavepointCompleted | QueryFailed, cause: Failure
) -> Step:
    failure = Failure(
        error_class=SAVEPOINT_WITHOUT_STOP,
        message=f"the savepoint exists but the job could not be stopped: {cause}",
        causes=(cause.error_class, *cause.causes),
    )
    draw = event.draw if isinstance(event, QueryFailed) else moves.NEUTRAL_DRAW
    return moves.handle_failure(state, event, stopping.plan, failure, draw)
