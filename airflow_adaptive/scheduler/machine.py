"""The scheduler as a pure function: `step(state, event)` gives the new state, the commands, and why.

Theory: facts about the world (slots, requirements, the driver's life) are folded into the state first, whatever the
current state is; what is outdated is dropped by epoch, version and deadline; then the current state's own handler
decides. One event leads to at most one transition. Deadlines are derived from the state (`timers`), so a restarted loop
knows them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.errors import SchedulerUsageError
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    BatchFailed,
    DriverEnded,
    DriverSilent,
    DriverSubmitted,
    Event,
    JobCompleted,
    PlanInForce,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SavepointFailed,
    SlotsChanged,
    TimerFired,
)
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.requirements import Requirements, are_accepted
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    Timer,
    WaitingForResources,
)
from airflow_adaptive.scheduler.states import (
    created,
    deploying,
    ending,
    executing,
    restarting,
    restarting_locally,
    stop_with_savepoint,
    waiting_for_resources,
)

_FromDriver = (
    DriverSubmitted
    | DriverEnded
    | DriverSilent
    | PlanInForce
    | BatchCommitted
    | BatchFailed
    | QueryFailed
    | SavepointCompleted
    | SavepointFailed
    | JobCompleted
)


class Behaviour(Protocol):
    """What a state does; the modules of `states` are its implementations, each for the data of its own state."""

    def on_event(self, state: SchedulerState, current: Any, event: Event, /) -> Step:
        """React to an event."""
        ...

    def timers(self, state: SchedulerState, current: Any, /) -> Iterable[Timer]:
        """The state's deadlines; delivering one that is due must lead on, or move it."""
        ...


BEHAVIOUR: Mapping[type[Current], Behaviour] = {
    Created: created,
    WaitingForResources: waiting_for_resources,
    Deploying: deploying,
    Executing: executing,
    RestartingLocally: restarting_locally,
    Restarting: restarting,
    StopWithSavepoint: stop_with_savepoint,
    Canceling: ending,
    Failing: ending,
    Finished: ending,
}


def create(job: JobGraph, options: Options, requirements: Requirements | None = None, epoch: int = 0) -> SchedulerState:
    """The state of a new job.

    Args:
        job: validated here.
        options: of the job.
        requirements: accepted overrides; the graph's own bounds if None.
        epoch: of the last driver that an earlier run of this job had.

    Raises:
        JobGraphError: the graph can't run.
    """
    job.validate()
    bounds = job.requirements if requirements is None else requirements
    return SchedulerState(job=job, options=options, requirements=bounds, current=Created(), epoch=epoch)


def step(state: SchedulerState, event: Event) -> Step:
    """React to one event.

    Raises:
        SchedulerUsageError: the event breaks its promise (requirements that were not accepted).
    """
    stale = _stale(state, event)
    if stale is not None:
        return moves.stay(state, event, stale)
    known = _learn(state, event)
    match event:
        case DriverSubmitted():
            return moves.stay(known, event)
        case SlotsChanged() if known == state:
            return moves.stay(state, event)
        case RequirementsChanged() if known == state:
            return moves.stay(state, event, "the requirements are as before: nothing to do")
        case _:
            return BEHAVIOUR[type(known.current)].on_event(known, known.current, event)


def timers(state: SchedulerState) -> tuple[Timer, ...]:
    """Deadlines of the current state; deliver them as `TimerFired` with the state's version, the earliest first."""
    deadlines = BEHAVIOUR[type(state.current)].timers(state, state.current)
    return tuple(sorted(deadlines, key=lambda timer: (timer.due, timer.name)))


def _stale(state: SchedulerState, event: Event) -> str | None:
    match event:
        case TimerFired(timer=timer, version=version) if version != state.version:
            return f"timer {timer} of version {version} ignored: the state has version {state.version}"
        case TimerFired(timer=timer, at=now) if not any(t.name is timer and t.due <= now for t in timers(state)):
            return f"timer {timer} ignored: it is not due"
        case _ if isinstance(event, _FromDriver) and event.epoch != state.epoch:
            return f"{type(event).__name__} of epoch {event.epoch} ignored: the epoch is {state.epoch}"
        case _:
            return None


def _learn(state: SchedulerState, event: Event) -> SchedulerState:
    match event:
        case SlotsChanged(offers=offers):
            return replace(state, offers=offers)
        case RequirementsChanged(requirements=requirements):
            if not are_accepted(requirements, state.job.max_parallelism):
                raise SchedulerUsageError(f"requirements {requirements!r} were not accepted: call requirements.accept")
            return replace(state, requirements=requirements)
        case DriverSubmitted(submission_id=submission_id) if state.driver is not None:
            return replace(state, driver=replace(state.driver, submission_id=submission_id))
        case DriverEnded():
            return replace(state, driver=None)
        case _:
            return state
