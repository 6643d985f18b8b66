"""WaitingForResources: start when all that is desired is there, or what suffices has been there for long enough."""

from __future__ import annotations

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    Event,
    QueryFailed,
    RequirementsChanged,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.policies.slot_allocation import minimum_slots
from airflow_adaptive.scheduler.policies.transition_manager import Phase, TransitionManager
from airflow_adaptive.scheduler.state import Outcome, SchedulerState, WaitingForResources

NOT_ENOUGH_RESOURCES = "NOT_ENOUGH_RESOURCES"


def on_event(state: SchedulerState, waiting: WaitingForResources, event: Event) -> Step:
    """Changes and timers move the manager; when it has decided, the job is deployed."""
    resources = moves.waiting_resources(state, waiting.goal)
    match event:
        case SlotsChanged() | RequirementsChanged():
            return _follow(state, event, waiting.manager.change(event.at, resources))
        case TimerFired(timer=TimerName.RESOURCE_WAIT):
            return _try_anyway(state, event)
        case TimerFired():
            return _follow(state, event, waiting.manager.advance(event.at, resources))
        case CancelRequested():
            return moves.cancel(state, event)
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked")
        case QueryFailed(failure=failure):
            return moves.finish(state, event, Outcome.FAILED, str(failure), failure)
        case _:
            return moves.ignore(state, event)


def _follow(state: SchedulerState, event: Event, manager: TransitionManager) -> Step:
    possible = moves.possible_parallelism(state)
    have = state.available_slots
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        return moves.deploy(state, event, possible, f"{have} slot(s) are there")
    reason = f"waiting: {have} slot(s), {_need(state)}; {manager.phase}"
    return moves.stay(moves.with_current(state, manager=manager), event, reason)


def _try_anyway(state: SchedulerState, event: Event) -> Step:
    possible = moves.possible_parallelism(state)
    have = state.available_slots
    if possible is not None:
        return moves.deploy(state, event, possible, f"waited long enough, {have} slot(s) are there")
    failure = Failure(
        error_class=NOT_ENOUGH_RESOURCES, message=f"not enough resources: have {have} slot(s), {_need(state)}"
    )
    return moves.finish(state, event, Outcome.FAILED, failure.message, failure)


def _need(state: SchedulerState) -> str:
    bounds = ", ".join(f"vertex {name!r} at least {b.lower}" for name, b in state.requirements.items())
    return f"need at least {minimum_slots(state.job, state.requirements)} ({bounds})"
