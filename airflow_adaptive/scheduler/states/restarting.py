"""Restarting: wait until all has stopped that must stop, then for the backoff, then deploy or wait for resources."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverSilent,
    Event,
    JobCompleted,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.transition_manager import Resources
from airflow_adaptive.scheduler.state import Outcome, Restarting, SchedulerState


def on_event(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """Failures in the meantime are recorded and change nothing: the restart is under way."""
    match event:
        case DriverEnded():
            return _driver_ended(state, restarting, event)
        case TimerFired(timer=TimerName.STOP):
            return moves.kill_again(state, event)
        case TimerFired():
            return _go_on(state, restarting, event)
        case DriverSilent() if restarting.in_place:
            stopping = moves.with_current(state, in_place=False, settled=None)
            return replace(
                moves.stay(stopping, event, "the driver is silent"), commands=moves.kill_driver(state, event)
            )
        case JobCompleted() if restarting.failure is None:
            return moves.finish(state, event, Outcome.FINISHED, "all queries have ended")
        case CancelRequested():
            return moves.cancel(state, event)
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked; it was not running")
        case _:
            return moves.ignore(state, event)


def _driver_ended(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    settled = restarting.settled or event.at
    return moves.stay(moves.with_current(state, in_place=False, settled=settled), event, "the driver is gone")


def _go_on(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """A rescale starts on the plan it was made for (FLINK-40379); a failed job needs all it desires, or waits."""
    goal = restarting.goal
    if goal is not None and state.driver is not None:
        return moves.deploy(state, event, goal, "the rescale's plan is handed to the driver")
    possible = moves.possible_parallelism(state)
    if possible is not None and moves.waiting_resources(state, None) is Resources.DESIRED:
        return moves.deploy(state, event, possible, "all desired slots are there")
    return moves.wait_for_resources(state, event, "the restart needs resources", goal)
