"""The scheduler as a pure function: `step(state, event)` gives the new state, the commands, and why.

Theory: facts about the world (slots, requirements, the driver's life) are folded into the state first, whatever the current
state is; what is outdated is dropped by epoch and version; then the current state's own handler decides. One event leads to at
most one transition. Deadlines are derived from the state (`timers`), so a restarted loop knows them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from airflow_adaptive.scheduler import moves
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
    TimerName,
)
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.options import Options
from airflow_adaptive.scheduler.requirements import Requirements
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Executing,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A deadline of the current state."""

    name: TimerName
    due: datetime


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
    """React to one event."""
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
    return _dispatch(known, event)


def timers(state: SchedulerState) -> tuple[Timer, ...]:
    """Deadlines of the current state; deliver them as `TimerFired` with the state's version, the earliest first."""
    return tuple(sorted(_timers(state), key=lambda timer: (timer.due, timer.name)))


def _stale(state: SchedulerState, event: Event) -> str | None:
    match event:
        case TimerFired(timer=timer, version=version) if version != state.version:
            return f"timer {timer} of version {version} ignored: the state has version {state.version}"
        case _ if isinstance(event, _FromDriver) and event.epoch != state.epoch:
            return f"{type(event).__name__} of epoch {event.epoch} ignored: the epoch is {state.epoch}"
    return None


def _learn(state: SchedulerState, event: Event) -> SchedulerState:
    match event:
        case SlotsChanged(offers=offers):
            return replace(state, offers=offers)
        case RequirementsChanged(requirements=requirements):
            return replace(state, requirements=requirements)
        case DriverSubmitted(submission_id=submission_id) if state.driver is not None:
            return replace(state, driver=replace(state.driver, submission_id=submission_id))
        case DriverEnded():
            return replace(state, driver=None)
        case _:
            return state


def _dispatch(state: SchedulerState, event: Event) -> Step:  # noqa: C901 - one line per state
    match state.current:
        case Created() as current:
            return created.on_event(state, current, event)
        case WaitingForResources() as current:
            return waiting_for_resources.on_event(state, current, event)
        case Deploying() as current:
            return deploying.on_event(state, current, event)
        case Executing() as current:
            return executing.on_event(state, current, event)
        case RestartingLocally() as current:
            return restarting_locally.on_event(state, current, event)
        case Restarting() as current:
            return restarting.on_event(state, current, event)
        case StopWithSavepoint() as current:
            return stop_with_savepoint.on_event(state, current, event)
        case Canceling() | Failing() | Finished() as current:
            return ending.on_event(state, current, event)
        case _:
            assert_never(state.current)


def _timers(state: SchedulerState) -> Iterator[Timer]:  # noqa: C901 - one line per state
    options = state.options
    match state.current:
        case WaitingForResources(since=since, manager=manager, gives_up=gives_up):
            if manager.due is not None:
                yield Timer(name=TimerName.TRANSITION, due=manager.due)
            if gives_up and options.resource_wait_timeout is not None:
                yield Timer(name=TimerName.RESOURCE_WAIT, due=since + options.resource_wait_timeout)
        case Deploying(since=since):
            yield Timer(name=TimerName.DEPLOY, due=since + options.deploy_timeout)
        case Executing(manager=manager, forced_at=forced_at):
            if manager.due is not None:
                yield Timer(name=TimerName.TRANSITION, due=manager.due)
            if forced_at is not None:
                yield Timer(name=TimerName.FORCED_RESCALE, due=forced_at)
        case RestartingLocally(since=since):
            yield Timer(name=TimerName.LOCAL_RECOVERY, due=since + options.local_recovery_timeout)
        case Restarting(settled=settled, backoff=backoff, stop_deadline=deadline):
            name, due = (TimerName.STOP, deadline) if settled is None else (TimerName.BACKOFF, settled + backoff)
            yield Timer(name=name, due=due)
        case StopWithSavepoint(stop_deadline=deadline):
            yield Timer(name=TimerName.STOP, due=deadline)
        case Canceling(stop_deadline=deadline, since=since) | Failing(stop_deadline=deadline, since=since):
            yield Timer(name=TimerName.STOP, due=since if state.driver is None else deadline)
        case Finished(stop_deadline=deadline) if state.driver is not None:
            yield Timer(name=TimerName.STOP, due=deadline)
