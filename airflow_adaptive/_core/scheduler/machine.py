"""The state machine of the scheduler: `step(state, event)` returns the new state, the commands and the reason.

Theory: everything that the scheduler decides happens in `step`. The other modules of the package are parts of this function:

- `transition_table` lists, for each state and each event, the states that the event may lead to. An empty set means that the
  state stays. The table does not decide anything; tests compare the table with `step`, the docstrings and the diagram.
- `states` has two functions for each state: one handles every event in the state (`on_event_<state>`), and one derives the deadlines of the
  state from its data (`timers_<state>`).
- `state_transitions` has the functions that enter a state. A function has the name of the state (`go_to_<state>`) or of the
  reason to leave the plan (`rescale`, `plan_again`, `stop_and_wait`, `handle_failure`), so that each transition is built once.

Three rules hold for every event:

1. `step` drops outdated events: a timer of an earlier version, a timer that is not due, and a report about a driver of another
   epoch do not change the state.
2. `step` records the facts of the event (slots, requirements, identity and end of the driver) before the current state decides,
   whatever the current state is.
3. The handler of the current state makes at most one transition. Each transition increments the version by one.

`step` reads no clock and keeps no timers: an event carries its time, and `timers(state)` returns the deadlines. A loop that
continues a job therefore knows every deadline from the saved state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_adaptive._core.scheduler import rescale_tiers, standby, state_transitions, steps
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.errors import SchedulerUsageError
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverEvent,
    DriverSubmitted,
    Event,
    JobCompleted,
    JobRedeployed,
    MoveAnnounced,
    PlanActivated,
    RequirementsChanged,
    SlotsChanged,
    SubmissionUnanswered,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.history import failures, rescales
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements, are_accepted
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    PendingRequirements,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    Timer,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.states import deploying, ending, running, waiting
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Decision, Reason, ReasonCode


class StateHandler(NamedTuple):
    """What a state decides. A timer that fires must lead to a transition or move its deadline."""

    on_event: Callable[[SchedulerState, Any, Event], Step]
    timers: Callable[[SchedulerState, Any], Iterable[Timer]]


_ENDING = StateHandler(ending.on_event_ending, ending.timers_ending)

STATE_HANDLERS: Mapping[type[Current], StateHandler] = {
    Created: StateHandler(waiting.on_event_created, waiting.timers_created),
    WaitingForResources: StateHandler(waiting.on_event_waiting, waiting.timers_waiting),
    Deploying: StateHandler(deploying.on_event_deploying, deploying.timers_deploying),
    Executing: StateHandler(running.on_event_executing, running.timers_executing),
    RestartingLocally: StateHandler(running.on_event_recovering, running.timers_recovering),
    Restarting: StateHandler(waiting.on_event_restarting, waiting.timers_restarting),
    StopWithSavepoint: StateHandler(ending.on_event_stopping, ending.timers_stopping),
    Canceling: _ENDING,
    Failing: _ENDING,
    Finished: _ENDING,
}


def create(
    job: JobGraph,
    options: Options,
    requirements: Requirements | None = None,
    epoch: int = 0,
    deployment: str = "",
) -> SchedulerState:
    """Return the state of a new job.

    Args:
        job: graph of the job, which this function validates.
        options: options of the job.
        requirements: accepted overrides of the bounds; None for the bounds of the graph.
        epoch: epoch of the last driver in an earlier run of this job.
        deployment: see `SchedulerState.deployment`.

    Raises:
        JobGraphError: the graph is invalid.
    """
    job.validate()
    bounds = default_requirements(job, options) if requirements is None else requirements
    return SchedulerState(
        job=job, options=options, requirements=bounds, current=Created(), epoch=epoch, deployment=deployment
    )


def default_requirements(job: JobGraph, options: Options) -> Requirements:
    """Return the declared bounds; in reactive mode, 1 and the maximum parallelism (FLIP-159)."""
    if not options.reactive:
        return job.requirements
    return {name: ParallelismRange(1, maximum) for name, maximum in job.max_parallelism.items()}


def step(state: SchedulerState, event: Event) -> Step:
    """Return what one event leads to.

    Args:
        state: state that the event meets; `step` does not change it.
        event: a fact, with the time of its observation.

    Raises:
        SchedulerUsageError: the event carries requirements that were not accepted.
    """
    outdated = _outdated(state, event)
    if outdated is not None:
        return steps.stay(state, event, outdated)
    is_about_standby = standby.is_about_standby(state, event)
    reaction = standby.without_useless((_on_standby if is_about_standby else _react)(state, event), event)
    if isinstance(event, DriverEnded) and not event.is_confirmed:
        reaction = replace(reaction, commands=(*reaction.commands, *state_transitions.kill_driver(state, event)))
    known = reaction if is_about_standby else failures.record_step(state, event, reaction)
    return _with_new_reasons(state, rescales.record_step(state, event, known))


def timers(state: SchedulerState) -> tuple[Timer, ...]:
    """Return the deadlines of the current state, earliest first. Deliver each as `TimerFired` with the version of the state."""
    deadlines = [*STATE_HANDLERS[type(state.current)].timers(state, state.current)]
    deadlines += standby.timers(state)
    if state.pending_requirements is not None:
        deadlines.append(Timer(name=TimerName.APPLY_REQUIREMENTS, due=state.pending_requirements.due))
    return tuple(sorted(deadlines, key=lambda timer: (timer.due, timer.name)))


def _on_standby(state: SchedulerState, event: Event) -> Step:
    """React to an event about the standby. If a deployment is prepared now, or cannot be prepared, the current state decides when it begins."""
    step = standby.on_event(state, event)
    known = step.state
    if rescale_tiers.has_other_deployment(state) or not rescale_tiers.has_other_deployment(known):
        return step
    redeployed = JobRedeployed(at=event.at, deployment=known.deployment)
    begun = STATE_HANDLERS[type(known.current)].on_event(known, known.current, redeployed)
    return replace(begun, commands=(*step.commands, *begun.commands), decision=begun.decision or step.decision)


def _react(state: SchedulerState, event: Event) -> Step:
    known = _with_facts(state, event)
    match event:
        case DriverSubmitted():
            return steps.stay(known, event)
        case SubmissionUnanswered(reason=reason):
            text = f"whether the cluster accepted the driver is unknown: {reason}"
            return steps.stay(known, event, Reason(ReasonCode.SUBMISSION_UNANSWERED, text))
        case MoveAnnounced(reason=reason):
            text = reason or "the driver may stay: nothing announces the end of its machine any more"
            return steps.stay(known, event, Reason(ReasonCode.MOVE_ANNOUNCED, text))
        case SlotsChanged() if known == state:
            return steps.stay(state, event)
        case RequirementsChanged():
            return _collect_requirements(state, event)
        case TimerFired(timer=TimerName.STANDBY):
            return standby.on_timer(state, event)
        case TimerFired(timer=TimerName.APPLY_REQUIREMENTS) if state.pending_requirements is not None:
            newest = state.pending_requirements
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
        case _ if (
            isinstance(event, DriverEvent) and event.epoch != state.epoch and not standby.is_about_standby(state, event)
        ):
            text = f"{type(event).__name__} of epoch {event.epoch} ignored: the epoch is {state.epoch}"
        case _:
            return None
    return Reason(ReasonCode.EVENT_OUTDATED, text)


def _with_facts(state: SchedulerState, event: Event) -> SchedulerState:
    match event:
        case SlotsChanged(offers=offers, standby=offer):
            return replace(state, offers=offers, standby_offer=offer)
        case DriverSubmitted(submission_id=submission, application_id=application) if state.driver is not None:
            driver = replace(state.driver, submission_id=submission, application_id=application, unanswered="")
            return replace(state, driver=driver, was_accepted=True)
        case SubmissionUnanswered(reason=reason) if state.driver is not None:
            return replace(state, driver=replace(state.driver, unanswered=reason))
        case MoveAnnounced(reason=reason) if state.driver is not None:
            return replace(state, driver=replace(state.driver, leaves=reason))
        case DriverEnded():
            return replace(state, driver=None)
        case PlanActivated():
            return _with_activated_plan(state, event)
        case JobRedeployed(deployment=deployment):
            return replace(state, deployment=deployment, standby=state.standby.tried_again())
        case BatchCommitted(is_idle=is_idle):
            worked = None if state.driver is None else replace(state.driver, has_worked=True)
            return replace(state, driver=worked, proved=state.proved.progressed(has_committed=not is_idle))
        case JobCompleted():
            return replace(state, proved=state.proved.progressed(has_committed=False))
        case _:
            return state


def _with_activated_plan(state: SchedulerState, event: PlanActivated) -> SchedulerState:
    """Record what the driver reports together with its active plan."""
    driver, interval = state.driver, event.trigger_interval or state.trigger_interval
    deploying = isinstance(state.current, Deploying) and state.current.plan.version == event.version
    if driver is not None and deploying:
        driver = replace(
            driver,
            vertices_read=driver.vertices_read if event.vertices_read is None else event.vertices_read,
            rejected=None,
            cannot_repartition=event.cannot_repartition or driver.cannot_repartition,
        )
    return replace(state, driver=driver, trigger_interval=interval)


def _collect_requirements(state: SchedulerState, event: RequirementsChanged) -> Step:
    """Let changes that follow each other closely take effect as one (FLIP-370, `slot.request.max-interval`)."""
    requested, pending, interval = (
        event.requirements,
        state.pending_requirements,
        state.options.slot_request_max_interval,
    )
    if not are_accepted(requested, state.job.max_parallelism):
        raise SchedulerUsageError(f"requirements {requested!r} were not accepted: call requirements.accept")
    if state.options.reactive and _limits_slots(requested, default_requirements(state.job, state.options)):
        text = "requirements ignored: a reactive job uses all available slots"
        return steps.stay(state, event, Reason(ReasonCode.REACTIVE_MODE, text))
    if requested == (state.requirements if pending is None else pending.requirements):
        text = "the requirements are unchanged"
        return steps.stay(state, event, Reason(ReasonCode.REQUIREMENTS_UNCHANGED, text))
    if not interval:
        return _apply_requirements(state, event)
    due = event.at + interval if pending is None else pending.due
    collected = replace(state, pending_requirements=PendingRequirements(requirements=requested, due=due, by=event.by))
    text = "new requirements: they take effect together with changes that follow closely"
    return steps.stay(collected, event, Reason(ReasonCode.REQUIREMENTS_PENDING, text))


def _limits_slots(requested: Requirements, default: Requirements) -> bool:
    """Return whether requirements permit fewer slots than the default. Only the lower bounds of a gang may differ in reactive mode."""
    return any(bounds.upper != default[name].upper for name, bounds in requested.items())


def _apply_requirements(state: SchedulerState, event: RequirementsChanged) -> Step:
    """Let requirements take effect, and let the current state decide on them."""
    required = replace(state, requirements=event.requirements, pending_requirements=None)
    if required.requirements == state.requirements:
        text = "the pending requirements are the current requirements"
        return steps.stay(required, event, Reason(ReasonCode.REQUIREMENTS_UNCHANGED, text))
    return _with_requester(
        STATE_HANDLERS[type(required.current)].on_event(required, required.current, event), required, event
    )


def _with_requester(step: Step, state: SchedulerState, event: RequirementsChanged) -> Step:
    """Return the step with the requester in its reason, also if the step has no reason of its own."""
    if not event.by:
        return step
    code = ReasonCode.REQUIREMENTS_CHANGED
    decision = step.decision or Decision(
        at=event.at, state=state.name, reason_code=code, reason="nothing else changes now"
    )
    reason = f"bounds by {event.by}: {decision.reason}"
    transition = None if step.transition is None else replace(step.transition, reason=reason)
    return replace(step, decision=replace(decision, reason=reason), transition=transition)


# ---- reported reasons -----------------------------------------------------------------------------------------------

MAX_REPORTED = 16
"""Number of reasons that are reported between two transitions, because each is a journal document."""

MAX_REASON_CHARACTERS = 80


def _with_new_reasons(before: SchedulerState, step: Step) -> Step:
    """Return the step without a reason that was already reported between two transitions, and with the reasons that are reported now."""
    step = _without_repetition(before, step)
    reported = _reported(before, step)
    if reported == before.timeline.reported:
        return step
    return replace(step, state=replace(step.state, timeline=replace(step.state.timeline, reported=reported)))


def _without_repetition(before: SchedulerState, step: Step) -> Step:
    if step.transition is not None or step.decision is None:
        return step
    return replace(step, decision=None) if _abbreviated(step.decision.reason) in before.timeline.reported else step


def _reported(before: SchedulerState, step: Step) -> tuple[str, ...]:
    """Return the reported reasons, up to the limit, so that slots that come and go do not fill the journal."""
    reported = before.timeline.reported
    if step.transition is not None:
        return ()
    if step.decision is None or len(reported) >= MAX_REPORTED:
        return reported
    return (*reported, _abbreviated(step.decision.reason))


def _abbreviated(reason: str) -> str:
    """Return the reason, or the beginning and the end of a long reason, because every snapshot contains it."""
    if len(reason) <= 2 * MAX_REASON_CHARACTERS:
        return reason
    return f"{reason[:MAX_REASON_CHARACTERS]}...{reason[-MAX_REASON_CHARACTERS:]}"
