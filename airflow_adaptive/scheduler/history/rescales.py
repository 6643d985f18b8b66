"""The rescale history: each rescale from its cause to its end, and reasons not to move, reported once.

Theory, after Flink's DefaultRescaleTimeline and the calls to it in AdaptiveScheduler (Flink 2.3, FLIP-495): at most one record
is open. It opens when scheduling starts, when requirements come into force, when a change is worth a rescale, or when the
job fails and can recover; a failover that meets an open record takes it over. It closes when the plan is in force, when other
requirements replace it, when nothing is left to be gained, or when the job ends. `record_step` folds each step in.

Where Flink is silent: a rescale that begins without a record opens one, and so does the loss of slots that Spark may replace;
the end of a job that never ran is reported by how it ended.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_adaptive.scheduler.events import Event, PlanActivated
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.transition_manager import Phase
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    Outcome,
    Plan,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive.scheduler.state_transitions import NO_TIME, Step
from airflow_adaptive.scheduler.timeline import (
    Amounts,
    Rescale,
    StateSpan,
    TerminatedReason,
    Timeline,
    Transition,
    TriggerCause,
)

MAX_STATES = 32
"""How many states a record has; of a rescale that passes more, as when slots come and go, the newest are kept."""

MAX_REPORTED = 16
"""How many reasons not to move are reported between two transitions: each is a document in the job's log."""

MAX_FAILURE_CHARACTERS = 300
MAX_REASON_CHARACTERS = 80

_Closed = tuple[Timeline, Rescale | None]
"""The timeline, and the record that is closed with it."""

_ENDING = Canceling | Failing | Finished

_UPDATE = TriggerCause.UPDATE_REQUIREMENT
_NEW_RESOURCE = TriggerCause.NEW_RESOURCE_AVAILABLE
_FAILOVER = TriggerCause.RECOVERABLE_FAILOVER


def record_step(before: SchedulerState, event: Event, step: Step) -> Step:
    """The step with the timeline that it leads to, the rescale that it ends, and no decision that was reported before.

    Args:
        before: the state that the event met.
        event: not a stale one.
        step: what it led to.
    """
    timeline, closed = _recorded(before, event, step)
    step = _reported_once(before, step)
    reported = _reported(before, step)
    if reported != timeline.reported:
        timeline = replace(timeline, reported=reported)
    if timeline is before.timeline:
        return step
    return replace(step, state=replace(step.state, timeline=timeline), rescale=closed)


# ---- reasons not to move --------------------------------------------------------------------------------------------


def _reported_once(before: SchedulerState, step: Step) -> Step:
    if step.transition is not None or step.decision is None:
        return step
    return replace(step, decision=None) if _abbreviated(step.decision.reason) in before.timeline.reported else step


def _reported(before: SchedulerState, step: Step) -> tuple[str, ...]:
    """Reasons beyond the limit are not remembered, so that slots that come and go do not fill the log."""
    reported = before.timeline.reported
    if step.transition is not None:
        return ()
    if step.decision is None or len(reported) >= MAX_REPORTED:
        return reported
    return (*reported, _abbreviated(step.decision.reason))


def _abbreviated(reason: str) -> str:
    """The reason itself, or the ends of a long one: every snapshot has it."""
    if len(reason) <= 2 * MAX_REASON_CHARACTERS:
        return reason
    return f"{reason[:MAX_REASON_CHARACTERS]}...{reason[-MAX_REASON_CHARACTERS:]}"


# ---- rescales -------------------------------------------------------------------------------------------------------


def _recorded(before: SchedulerState, event: Event, step: Step) -> _Closed:
    required = before.requirements != step.state.requirements
    timeline, replaced = _required(before, event, step.state) if required else (before.timeline, None)
    timeline = _activated(timeline, before, event)
    if step.transition is not None:
        timeline, closed = _moved(timeline, before, step.state, step.transition)
    else:
        timeline, closed = _stayed(timeline, before, event, step.state, required=required)
    return _worth_it(timeline, event, step.state), closed or replaced


def _required(before: SchedulerState, event: Event, after: SchedulerState) -> _Closed:
    """Requirements that come into force are a rescale of their own, wherever the old one had come to."""
    timeline = before.timeline
    if isinstance(before.current, Created | _ENDING):
        return timeline, None
    old = timeline.rescale
    timeline, closed = _close(timeline, before.name, event.at, TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED)
    opened = _open(timeline, after, event.at, _UPDATE, anew=True)
    # What the job has gone through on its way to the old requirements is part of the way to the new ones.
    return (opened if old is None else _changed(opened, tier=old.tier, downtime=old.downtime)), closed


def _activated(timeline: Timeline, before: SchedulerState, event: Event) -> Timeline:
    """The downtime ends when the driver reports the plan, even if slots of it are still to come."""
    current = before.current
    if not isinstance(event, PlanActivated) or not isinstance(current, Deploying) or timeline.stopped is None:
        return timeline
    if event.version != current.plan.version:
        return timeline
    downtime = max(event.at - timeline.stopped, NO_TIME) if event.downtime is None else event.downtime
    known = NO_TIME if timeline.rescale is None else timeline.rescale.downtime or NO_TIME
    return replace(_changed(timeline, downtime=known + downtime), stopped=None)


def _stayed(
    timeline: Timeline, before: SchedulerState, event: Event, after: SchedulerState, *, required: bool
) -> _Closed:
    """A manager that becomes idle has found nothing to be gained; what is required in that moment waits on."""
    match before.current, after.current:
        case Executing(manager=old), Executing(manager=new) if (
            new.phase is Phase.IDLING is not old.phase and not required
        ):
            reason = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
            return _close(timeline, after.name, event.at, reason)
        case _:
            return timeline, None


def _worth_it(timeline: Timeline, event: Event, after: SchedulerState) -> Timeline:
    """A change that the manager of a running job has taken note of is a rescale under way."""
    match after.current:
        case Executing(manager=manager) if timeline.rescale is None and manager.first_change is not None:
            return _open(timeline, after, event.at, _NEW_RESOURCE)
        case _:
            return timeline


def _moved(timeline: Timeline, before: SchedulerState, after: SchedulerState, transition: Transition) -> _Closed:
    timeline = _entered(timeline, before.current, after, transition)
    timeline = _passed(timeline, transition.source, transition.at)
    timeline = _climbed(timeline, transition.tier)
    if _runs(before.current) and not _runs(after.current):
        timeline = replace(timeline, stopped=transition.at)
    match after.current:
        case Deploying(plan=plan):
            return _planned(timeline, after, plan.parallelism), None
        case Executing(plan=plan):
            return _executing(timeline, before.current, after, plan, transition)
        case Canceling() | Failing() | Finished():
            return _ended(timeline, before.current, after.current, transition)
        case _:
            return timeline, None


def _entered(timeline: Timeline, left: Current, after: SchedulerState, transition: Transition) -> Timeline:
    """Open the record that the new state calls for, or make the open one its own."""
    at = transition.at
    match after.current:
        case WaitingForResources() if isinstance(left, Created):
            return _open(timeline, after, at, TriggerCause.INITIAL_SCHEDULE, anew=True)
        case RestartingLocally():
            return _failed_over(timeline, left, after, at, transition.reason)
        case Restarting(failure=failure) if failure is not None:
            return _failed_over(timeline, left, after, at, failure.summary)
        case Restarting(target_parallelism=target_parallelism) if timeline.rescale is None:
            return _open(timeline, after, at, _NEW_RESOURCE if target_parallelism is not None else _UPDATE)
        case Deploying(tier=Tier.EXECUTORS) if timeline.rescale is None:
            return _open(timeline, after, at, _NEW_RESOURCE)
        case _:
            return timeline


def _failed_over(timeline: Timeline, left: Current, after: SchedulerState, at: datetime, failure: str) -> Timeline:
    """A failover takes over the open record, and goes on with its own if it was recovering locally."""
    known = timeline.rescale
    if known is None:
        timeline = _open(timeline, after, at, _FAILOVER)
    elif known.trigger_cause is not _FAILOVER or not isinstance(left, RestartingLocally):
        timeline = replace(timeline, rescale=_rescale(timeline, after, max(at, known.latest), _FAILOVER))
    return _changed(timeline, failure=failure[:MAX_FAILURE_CHARACTERS])


def _executing(timeline: Timeline, left: Current, after: SchedulerState, plan: Plan, transition: Transition) -> _Closed:
    """The plan is in force: the rescale is over, unless the job only could not be stopped."""
    rescale, ran, running = timeline.rescale, timeline.running is not None, plan.parallelism
    timeline = replace(timeline, running=running, stopped=None)
    if isinstance(left, StopWithSavepoint):
        return timeline, None
    if ran and rescale is not None and rescale.downtime is None:
        timeline = _changed(timeline, downtime=NO_TIME)  # it recovered locally
    if isinstance(left, Deploying) and left.previous_plan == plan:
        timeline = _changed(timeline, failure=transition.reason[:MAX_FAILURE_CHARACTERS])
        return _close(timeline, after.name, transition.at, TerminatedReason.EXCEPTION_OCCURRED)
    return _close(_planned(timeline, after, running), after.name, transition.at, TerminatedReason.SUCCEEDED)


def _ended(timeline: Timeline, left: Current, entered: Current, transition: Transition) -> _Closed:
    cause = entered.cause if isinstance(entered, Failing | Finished) else None
    if cause is not None:
        timeline = _changed(timeline, failure=cause.summary[:MAX_FAILURE_CHARACTERS])
    return _close(timeline, None, transition.at, _how(left, entered))


def _how(left: Current, entered: Current) -> TerminatedReason:
    """A job that fails before its plan is in force has failed at the rescale itself."""
    match entered:
        case Canceling() | Finished(outcome=Outcome.CANCELED):
            return TerminatedReason.JOB_CANCELED
        case Failing() | Finished(outcome=Outcome.FAILED) if isinstance(left, WaitingForResources | Deploying):
            return TerminatedReason.EXCEPTION_OCCURRED
        case Failing() | Finished(outcome=Outcome.FAILED):
            return TerminatedReason.JOB_FAILED
        case _:
            return TerminatedReason.JOB_FINISHED


def _runs(current: Current) -> bool:
    """Whether a plan is in force."""
    if isinstance(current, Deploying):
        return current.active or current.tier is Tier.EXECUTORS
    return isinstance(current, Executing | RestartingLocally | StopWithSavepoint)


# ---- one record -----------------------------------------------------------------------------------------------------


def _open(
    timeline: Timeline, state: SchedulerState, at: datetime, cause: TriggerCause, *, anew: bool = False
) -> Timeline:
    """A new record, for requirements that are `anew` or for those that there were."""
    counted = replace(
        timeline,
        number=timeline.number + 1,
        requirements=timeline.requirements + anew,
        attempt=1 if anew else timeline.attempt + 1,
    )
    return replace(counted, rescale=_rescale(counted, state, at, cause))


def _rescale(timeline: Timeline, state: SchedulerState, at: datetime, cause: TriggerCause) -> Rescale:
    desired = {name: bounds.upper for name, bounds in state.requirements.items()}
    sufficient = {name: bounds.lower for name, bounds in state.requirements.items()}
    before, job = timeline.running, state.job
    return Rescale(
        number=timeline.number,
        requirements=timeline.requirements,
        attempt=timeline.attempt,
        trigger_cause=cause,
        start=at,
        vertices=Amounts(desired=desired, sufficient=sufficient, before=before),
        groups=Amounts(
            desired=_slots(job, desired),
            sufficient=_slots(job, sufficient),
            before=None if before is None else _slots(job, before),
        ),
    )


def _slots(job: JobGraph, parallelism: Parallelism) -> dict[str, int]:
    """Slots per group; a vertex that a new deployment brought had none before."""
    return {name: max(parallelism.get(v.name, 0) for v in vertices) for name, vertices in job.groups.items()}


def _changed(timeline: Timeline, **changes: Any) -> Timeline:
    """The same timeline with an open record that is changed, if there is one."""
    rescale = timeline.rescale
    return timeline if rescale is None else replace(timeline, rescale=replace(rescale, **changes))


def _planned(timeline: Timeline, state: SchedulerState, parallelism: Parallelism) -> Timeline:
    rescale = timeline.rescale
    if rescale is None:
        return timeline
    return _changed(
        timeline,
        vertices=replace(rescale.vertices, after=parallelism),
        groups=replace(rescale.groups, after=_slots(state.job, parallelism)),
    )


def _passed(timeline: Timeline, state: str, at: datetime) -> Timeline:
    """Each state begins where the one before ended; a clock that goes back stands still."""
    rescale = timeline.rescale
    if rescale is None:
        return timeline
    entered = rescale.latest
    span = StateSpan(state=state, entered=entered, left=max(entered, at))
    return _changed(timeline, states=(*rescale.states, span)[-MAX_STATES:])


def _climbed(timeline: Timeline, tier: Tier | None) -> Timeline:
    rescale = timeline.rescale
    if rescale is None or tier is None:
        return timeline
    return _changed(timeline, tier=tier if rescale.tier is None else max(tier, rescale.tier))


def _close(timeline: Timeline, state: str | None, at: datetime, reason: TerminatedReason) -> _Closed:
    """End the open record, if there is one, in a state that is to be reported or has been."""
    reported = timeline if state is None else _passed(timeline, state, at)
    rescale = reported.rescale
    if rescale is None:
        return reported, None
    closed = replace(
        rescale, end=max(at, rescale.latest), terminated_reason=reason, terminal_state=reason.terminal_state
    )
    return replace(reported, rescale=None), closed
