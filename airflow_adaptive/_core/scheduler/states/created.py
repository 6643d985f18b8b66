"""Created: the scheduler has not started."""

from __future__ import annotations

from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    Event,
    QueryFailed,
    SchedulingStarted,
    SuspendRequested,
)
from airflow_adaptive._core.scheduler.state import Created, Outcome, SchedulerState, Timer
from airflow_adaptive._core.scheduler.state_transitions import start, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(state: SchedulerState, _: Created, event: Event) -> Step:
    """Start to schedule the job, or end the job."""
    match event:
        case SchedulingStarted():
            return start.go_to_waiting_for_resources(
                state, event, Reason(ReasonCode.SCHEDULING_STARTED, "scheduling started")
            )
        case CancelRequested():
            return stop.go_to_canceling(state, event)
        case SuspendRequested():
            return stop.go_to_finished(
                state, event, Outcome.SUSPENDED, Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested")
            )
        case QueryFailed(failure=failure):
            return stop.go_to_finished(
                state, event, Outcome.FAILED, Reason(ReasonCode.QUERY_FAILED, failure.summary), failure
            )
        case _:
            return steps.ignore(state, event)


def timers(_state: SchedulerState, _: Created) -> tuple[Timer, ...]:
    """Return no timer: this state has no deadline."""
    return ()
