"""The common part of Deploying, Executing, RestartingLocally and StopWithSavepoint: a driver with a plan."""

from __future__ import annotations

from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    JobCompleted,
    QueryFailed,
    SuspendRequested,
)
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Executing,
    Outcome,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._core.scheduler.state_transitions import recovery, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(
    state: SchedulerState, current: Deploying | Executing | RestartingLocally | StopWithSavepoint, event: Event
) -> Step:
    """React to failures, to the end of the input, and to requests to cancel or suspend."""
    plan = current.plan
    match event:
        case DriverEnded(failure=failure) | QueryFailed(failure=failure):
            return recovery.handle_failure(state, event, plan, failure)
        case DriverHeartbeatTimedOut(failure=failure):
            return recovery.handle_failure(state, event, plan, failure, kill=True)
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries have ended")
            return stop.go_to_finished(state, event, Outcome.FINISHED, reason)
        case CancelRequested():
            return stop.go_to_canceling(state, event)
        case SuspendRequested() if stop.runs_queries(state):
            return stop.go_to_stop_with_savepoint(state, event, plan)
        case SuspendRequested():
            reason = Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested; no query was running")
            return stop.go_to_finished(state, event, Outcome.SUSPENDED, reason)
        case _:
            return steps.ignore(state, event)
