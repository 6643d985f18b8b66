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

from airflow_adaptive.scheduler import state_transitions
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.errors import SchedulerUsageError
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverSubmitted,
    Event,
    JobCompleted,
    JobRedeployed,
    PlanActivated,
    PlanRefused,
    QueryFailed,
    RequirementsChanged,
    SavepointCompleted,
    SavepointFailed,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.history import failures, rescales
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements, are_accepted
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Current,
    Declaration,
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
from airflow_adaptive.scheduler.state_transitions import Step
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
from airflow_adaptive.scheduler.timeline import Decision, Reason, ReasonCode

_FromDriver = (
    DriverSubmitted
    | DriverEnded
    | DriverHeartbeatTimedOut
    | PlanActivated
    | PlanRefused
    | BatchCommitted
    | QueryFailed
    | SavepointCompleted
    | SavepointFailed
    | JobCompleted
)


class StateHandler(Protocol):
    """What a state does; the modules of `states` are its implementations, each for the data of its own state."""

    def on_event(self, state: SchedulerState, current: Any, event: Event, /) -> Step:
        """React to an event."""
        ...

    def timers(self, state: SchedulerState, current: Any, /) -> Iterable[Timer]:
        """The state's deadlines; delivering one that is due must lead on, or move it."""
        ...


STATE_HANDLERS: Mapping[type[Current], StateHandler] = {
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


def create(
    job: JobGraph,
    options: Options,
    requirements: Requirements | None = None,
    epoch: int = 0,
    deployment: str = "",
) -> SchedulerState:
    """The state of a new job.

    Args:
        job: validated here.
        options: of the job.
        requirements: accepted overrides; the graph's own bounds if None.
        epoch: of the last driver that an earlier run of this job had.
        deployment: see `SchedulerState.deployment`.

    Raises:
        JobGraphError: the graph can't run.
    """
    job.validate()
    bounds = default_requirements(job, options) if requirements is None else requirements
    return SchedulerState(
        job=job, options=options, requirements=bounds, current=Created(), epoch=epoch, deployment=deployment
    )


def default_requirements(job: JobGraph, options: Options) -> Requirements:
    """The bounds that hold unless somebody sets others: as declared; in reactive mode 1 and the maximum (FLIP-159)."""
    if not options.reactive:
        return job.requirements
    return {name: ParallelismRange(1, maximum) for name, maximum in job.max_parallelism.items()}


def step(state: SchedulerState, event: Event) -> Step:
    """React to one event.

    Raises:
        SchedulerUsageError: the event breaks its promise (requirements that were not accepted).
    """
    outdated = _outdated(state, event)
    if outdated is not None:
        return state_transitions.stay(state, event, outdated)
    return rescales.record_step(state, event, failures.record_step(state, event, _react(state, event)))


def timers(state: SchedulerState) -> tuple[Timer, ...]:
    """Deadlines of the current state; deliver them as `TimerFired` with the state's version, the earliest first."""
    deadlines = [*STATE_HANDLERS[type(state.current)].timers(state, state.current)]
    if state.declaration is not None:
        deadlines.append(Timer(name=TimerName.DECLARE, due=state.declaration.due))
    return tuple(sorted(deadlines, key=lambda timer: (timer.due, timer.name)))


def _react(state: SchedulerState, event: Event) -> Step:
    known = _with_facts(state, event)
    match event:
        case DriverSubmitted():
            return state_transitions.stay(known, event)
        case SlotsChanged() if known == state:
            return state_transitions.stay(state, event)
        case RequirementsChanged():
            return _declare_requirements(state, event)
        case TimerFired(timer=TimerName.DECLARE) if state.declaration is not None:
            newest = state.declaration
            return _apply_requirements(
                state, RequirementsChanged(at=event.at, requirements=newest.requirements, by=newest.by)
            )
        case _:
            return STATE_HANDLERS[type(known.current)].on_event(known, known.current, event)


def _outdated(state: SchedulerState, event: Event) -> Reason | None:
    match event:
        case TimerFired(timer=timer, version=version) if version != state.version:
            text = f"timer {timer} of version {version} ignored: the state has version {state.version}"
        case TimerFired(timer=timer, at=now) if not any(t.name is timer and t.due <= now for t in timers(state)):
            text = f"timer {timer} ignored: it is not due"
        case _ if isinstance(event, _FromDriver) and event.epoch != state.epoch:
            text = f"{type(event).__name__} of epoch {event.epoch} ignored: the epoch is {state.epoch}"
        case _:
            return None
    return Reason(ReasonCode.EVENT_OUTDATED, text)


def _with_facts(state: SchedulerState, event: Event) -> SchedulerState:
    match event:
        case SlotsChanged(offers=offers):
            return replace(state, offers=offers)
        case DriverSubmitted(submission_id=submission, application_id=application) if state.driver is not None:
            return replace(state, driver=replace(state.driver, submission_id=submission, application_id=application))
        case DriverEnded():
            return replace(state, driver=None)
        case PlanActivated():
            return _with_activated_plan(state, event)
        case JobRedeployed(deployment=deployment):
            return replace(state, deployment=deployment)
        case _:
            return state


def _with_activated_plan(state: SchedulerState, event: PlanActivated) -> SchedulerState:
    """What a plan in force tells beside that it is."""
    driver, interval = state.driver, event.trigger_interval or state.trigger_interval
    deploying = isinstance(state.current, Deploying) and state.current.plan.version == event.version
    if driver is not None and deploying:
        driver = replace(driver, reads=driver.reads if event.reads is None else event.reads, refused=None)
    return replace(state, driver=driver, trigger_interval=interval)


def _declare_requirements(state: SchedulerState, event: RequirementsChanged) -> Step:
    """Changes that follow each other closely come into force as one (FLIP-370, `slot.request.max-interval`)."""
    wanted, waiting, interval = event.requirements, state.declaration, state.options.slot_request_max_interval
    if not are_accepted(wanted, state.job.max_parallelism):
        raise SchedulerUsageError(f"requirements {wanted!r} were not accepted: call requirements.accept")
    if state.options.reactive and wanted != default_requirements(state.job, state.options):
        text = "requirements ignored: a reactive job takes all slots that there are"
        return state_transitions.stay(state, event, Reason(ReasonCode.REACTIVE_MODE, text))
    if wanted == (state.requirements if waiting is None else waiting.requirements):
        text = "the requirements are as before: nothing to do"
        return state_transitions.stay(state, event, Reason(ReasonCode.REQUIREMENTS_UNCHANGED, text))
    if not interval:
        return _apply_requirements(state, event)
    due = event.at + interval if waiting is None else waiting.due
    noted = replace(state, declaration=Declaration(requirements=wanted, due=due, by=event.by))
    text = "new requirements: they come into force with those that follow at once"
    return state_transitions.stay(noted, event, Reason(ReasonCode.REQUIREMENTS_PENDING, text))


def _apply_requirements(state: SchedulerState, event: RequirementsChanged) -> Step:
    """Bring requirements into force."""
    required = replace(state, requirements=event.requirements, declaration=None)
    if required.requirements == state.requirements:
        text = "the requirements are as before after all: nothing to do"
        return state_transitions.stay(required, event, Reason(ReasonCode.REQUIREMENTS_UNCHANGED, text))
    return _with_requester(
        STATE_HANDLERS[type(required.current)].on_event(required, required.current, event), required, event
    )


def _with_requester(step: Step, state: SchedulerState, event: RequirementsChanged) -> Step:
    """The step with whose requirements it is about, also where nothing else would be told."""
    if not event.by:
        return step
    code = ReasonCode.REQUIREMENTS_CHANGED
    decision = step.decision or Decision(
        at=event.at, state=state.name, reason_code=code, reason="nothing else follows now"
    )
    reason = f"bounds by {event.by}: {decision.reason}"
    transition = None if step.transition is None else replace(step.transition, reason=reason)
    return replace(step, decision=replace(decision, reason=reason), transition=transition)
