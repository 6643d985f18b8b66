"""Created: nothing has happened yet."""

from __future__ import annotations

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    Event,
    QueryFailed,
    SchedulingStarted,
    SuspendRequested,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.state import Created, Outcome, SchedulerState, Timer


def on_event(state: SchedulerState, _: Created, event: Event) -> Step:
    """Start, or end before anything ran."""
    match event:
        case SchedulingStarted():
            return moves.wait_for_resources(state, event, "scheduling started")
        case CancelRequested():
            return moves.finish(state, event, Outcome.CANCELED, "canceled as asked")
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked")
        case QueryFailed(failure=failure):
            return moves.finish(state, event, Outcome.FAILED, failure.summary, failure)
        case _:
            return moves.ignore(state, event)


def timers(_state: SchedulerState, _: Created) -> tuple[Timer, ...]:
    """None: somebody must start the scheduler."""
    return ()
