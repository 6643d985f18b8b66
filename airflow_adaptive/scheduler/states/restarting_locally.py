"""RestartingLocally: executors were lost; let Spark recover, or make a new plan from what is there."""

from __future__ import annotations

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverSilent,
    Event,
    JobCompleted,
    QueryFailed,
    RequirementsChanged,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.state import Outcome, RestartingLocally, SchedulerState


def on_event(state: SchedulerState, recovering: RestartingLocally, event: Event) -> Step:
    """Recovered when the plan's slots are back; escalated when they can't come back, or not in time."""
    plan = recovering.plan
    match event:
        case SlotsChanged() if state.held_slots >= plan.slots:
            return moves.execute(state, event, plan, "recovered locally: the plan's slots are back")
        case SlotsChanged() | RequirementsChanged() if state.available_slots < plan.slots:
            return _escalate(state, recovering, event, state.available_slots, "the lost slots can't come back")
        case TimerFired():
            return _escalate(state, recovering, event, state.held_slots, "the lost slots did not come back in time")
        case DriverEnded(failure=failure, draw=draw) | QueryFailed(failure=failure, draw=draw):
            return moves.handle_failure(state, event, plan, failure, draw)
        case DriverSilent(failure=failure, draw=draw):
            return moves.handle_failure(state, event, plan, failure, draw, kill=True)
        case JobCompleted():
            return moves.finish(state, event, Outcome.FINISHED, "all queries have ended")
        case SuspendRequested(with_savepoint=True):
            return moves.stop_with_savepoint(state, event, plan)
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked, at once")
        case CancelRequested():
            return moves.cancel(state, event)
        case _:
            return moves.ignore(state, event)


def _escalate(state: SchedulerState, recovering: RestartingLocally, event: Event, slots: int, why: str) -> Step:
    plan, possible = recovering.plan, moves.possible_parallelism(state, slots)
    if possible is None:
        return moves.stop_and_wait(state, event, plan, f"{why}, and {slots} slot(s) are below the minimum")
    return moves.rescale(state, event, plan, possible, f"{why}: {dict(plan.parallelism)} -> {dict(possible)}")
