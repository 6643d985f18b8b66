"""Created: nothing has happened yet."""

from __future__ import annotations

from airflow_adaptive.scheduler import state_transitions
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    Event,
    QueryFailed,
    SchedulingStarted,
    SuspendRequested,
)
from airflow_adaptive.scheduler.state import Created, Outcome, SchedulerState, Timer
from airflow_adaptive.scheduler.state_transitions import Step


def on_event(state: SchedulerState, _: Created, event: Event) -> Step:
    """Start, or end before anything ran."""
    match event:
        case SchedulingStarted():
            return state_transitions.wait_for_resources(state, event, "scheduling started")
        case CancelRequested():
            return state_transitions.finish(state, event, Outcome.CANCELED, "canceled as asked")
        case SuspendRequested():
            return state_transitions.finish(state, event, Outcome.SUSPENDED, "suspended as asked")
        case QueryFailed(failure=failure):
            return state_transitions.finish(state, event, Outcome.FAILED, failure.summary, failure)
        case _:
            return state_transitions.ignore(state, event)


def timers(_state: SchedulerState, _: Created) -> tuple[Timer, ...]:
    """None: somebody must start the scheduler."""
    return ()
