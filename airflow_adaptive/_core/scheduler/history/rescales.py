"""The rescale history: each rescale from its cause to its end, and the statistics of rescales.

Theory, after Flink's DefaultRescaleTimeline and the calls to it in AdaptiveScheduler (Flink 2.3, FLIP-495): at most one record
is open. A record opens when scheduling starts, when requirements take effect, when a change justifies a rescale, or when the
job restarts after a failure; a failover during an open record takes the record over. A record closes when the plan is active,
when other requirements replace it, when no rescale is justified any more, or when the job ends. `record_step` updates the
timeline with each step.

Flink does not define three cases. A rescale that begins without a record opens one, and so does the loss of slots that Spark
may replace. The record of a job that never ran ends with the reason of the end of the job.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_adaptive._core.scheduler.events import Event, PlanActivated
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME, Phase
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import (
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
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import (
    MAX_FAILURE_CHARACTERS,
    Amounts,
    ReasonCode,
    Rescale,
    StateSpan,
    TerminalState,
    TerminatedReason,
    Timeline,
    Transition,
    TriggerCause,
)

MAX_STATES = 32
"""Number of states that a record keeps at most; the newest states are kept."""

_Closed = tuple[Timeline, Rescale | None]
"""A timeline, and the record that was closed, if any."""

_ENDING = Canceling | Failing | Finished

_UPDATE = TriggerCause.UPDATE_REQUIREMENT
_NEW_RESOURCE = TriggerCause.NEW_RESOURCE_AVAILABLE
_FAILOVER = TriggerCause.RECOVERABLE_FAILOVER


def record_step(before: SchedulerState, event: Event, step: Step) -> Step:
    """Return the step with its timeline, and with the rescale that it ends.

    Args:
        before: state before the event.
        event: event that is not outdated.
        step: result of the event.
    """
    timeline, closed = _recorded(before, event, step)
    if timeline is before.timeline:
        return step
    return replace(step, state=replace(step.state, timeline=timeline), rescale=closed)


def _recorded(before: SchedulerState, event: Event, step: Step) -> _Closed:
    required = before.requirements != step.state.requirements
    timeline, replaced = _required(before, event, step.state) if required else (before.timeline, None)
    timeline = _activated(timeline, before, event)
    if step.transition is not None:
        timeline, closed = _after_transition(timeline, before, step.state, step.transition)
    else:
        timeline, closed = _stayed(timeline, before, event, step.state, required=required)
    return _opened_for_change(timeline, event, step.state), closed or replaced


def _required(before: SchedulerState, event: Event, after: SchedulerState) -> _Closed:
    """Close the open record and open one for the new requirements."""
    timeline = before.timeline
    if isinstance(before.current, Created | _ENDING):
        return timeline, None
    old = timeline.rescale
    timeline, closed = _close(timeline, before.name, event.at, TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED)
    opened = _open(timeline, after, event.at, _UPDATE, new_requirements=True)
    # The tier and the downtime of the replaced rescale are part of the new rescale.
    return (opened if old is None else _changed(opened, tier=old.tier, downtime=old.downtime)), closed


def _activated(timeline: Timeline, before: SchedulerState, event: Event) -> Timeline:
    """End the downtime when the driver activates the plan, even if some slots have not arrived."""
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
    """Close the record when the manager becomes idle, unless the requirements changed in this step."""
    match before.current, after.current:
        case Executing(manager=old), Executing(manager=new) if (
            new.phase is Phase.IDLING is not old.phase and not required
        ):
            reason = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
            return _close(timeline, after.name, event.at, reason)
        case _:
            return timeline, None


def _opened_for_change(timeline: Timeline, event: Event, after: SchedulerState) -> Timeline:
    """Open a record for a change that the manager of a running job has accepted."""
    match after.current:
        case Executing(manager=manager) if timeline.rescale is None and manager.first_change is not None:
            return _open(timeline, after, event.at, _NEW_RESOURCE)
        case _:
            return timeline


def _after_transition(
    timeline: Timeline, before: SchedulerState, after: SchedulerState, transition: Transition
) -> _Closed:
    timeline = _entered(timeline, before.current, after, transition)
    timeline = _passed(timeline, transition.source, transition.at)
    timeline = _with_highest_tier(timeline, transition.tier)
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
    """Open the record of the new state, or let the new state take over the open record."""
    at = transition.at
    match after.current:
        case WaitingForResources() if isinstance(left, Created):
            return _open(timeline, after, at, TriggerCause.INITIAL_SCHEDULE, new_requirements=True)
        case RestartingLocally():
            return _failed_over(timeline, left, after, at, transition.reason)
        case Restarting(failure=failure) if failure is not None:
            return _failed_over(timeline, left, after, at, failure.summary)
        case Restarting() if transition.reason_code is ReasonCode.DRIVER_MOVED:
            return timeline if timeline.rescale is not None else _open(timeline, after, at, _FAILOVER)
        case Restarting(target_parallelism=target_parallelism) if timeline.rescale is None:
            return _open(timeline, after, at, _NEW_RESOURCE if target_parallelism is not None else _UPDATE)
        case Deploying(tier=Tier.EXECUTORS) if timeline.rescale is None:
            return _open(timeline, after, at, _NEW_RESOURCE)
        case _:
            return timeline


def _failed_over(timeline: Timeline, left: Current, after: SchedulerState, at: datetime, failure: str) -> Timeline:
    """Let a failover take over the open record; a failover from local recovery continues its own record."""
    known = timeline.rescale
    if known is None:
        timeline = _open(timeline, after, at, _FAILOVER)
    elif known.trigger_cause is not _FAILOVER or not isinstance(left, RestartingLocally):
        timeline = replace(timeline, rescale=_rescale(timeline, after, max(at, known.latest), _FAILOVER))
    return _changed(timeline, failure=failure[:MAX_FAILURE_CHARACTERS])


def _executing(timeline: Timeline, left: Current, after: SchedulerState, plan: Plan, transition: Transition) -> _Closed:
    """Close the record because the plan is active, except after a failed stop with savepoint."""
    rescale, ran, running = timeline.rescale, timeline.running is not None, plan.parallelism
    timeline = replace(timeline, running=running, stopped=None)
    if isinstance(left, StopWithSavepoint):
        return timeline, None
    if ran and rescale is not None and rescale.downtime is None:
        timeline = _changed(timeline, downtime=NO_TIME)  # Spark recovered locally, without a downtime.
    if isinstance(left, Restarting):
        return _close(timeline, after.name, transition.at, TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE)
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
    """Return the reason for the end; a failure before the plan is active is a failure of the rescale."""
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
    """Return whether a plan is active."""
    if isinstance(current, Deploying):
        return current.active or current.tier is Tier.EXECUTORS
    return isinstance(current, Executing | RestartingLocally | StopWithSavepoint)


# ---- one record -----------------------------------------------------------------------------------------------------


def _open(
    timeline: Timeline, state: SchedulerState, at: datetime, cause: TriggerCause, *, new_requirements: bool = False
) -> Timeline:
    """Open a record; new requirements start the count of attempts again."""
    counted = replace(
        timeline,
        number=timeline.number + 1,
        requirements=timeline.requirements + new_requirements,
        attempt=1 if new_requirements else timeline.attempt + 1,
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
    """Return the slots of each group; a vertex of a new deployment had no slot before."""
    return {name: max(parallelism.get(v.name, 0) for v in vertices) for name, vertices in job.groups.items()}


def _changed(timeline: Timeline, **changes: Any) -> Timeline:
    """Return the timeline with changes of its open record, if any."""
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
    """Add a state, which begins at the end of the last state, even if the clock goes back."""
    rescale = timeline.rescale
    if rescale is None:
        return timeline
    entered = rescale.latest
    span = StateSpan(state=state, entered=entered, left=max(entered, at))
    return _changed(timeline, states=(*rescale.states, span)[-MAX_STATES:])


def _with_highest_tier(timeline: Timeline, tier: Tier | None) -> Timeline:
    rescale = timeline.rescale
    if rescale is None or tier is None:
        return timeline
    return _changed(timeline, tier=tier if rescale.tier is None else max(tier, rescale.tier))


def _close(timeline: Timeline, state: str | None, at: datetime, reason: TerminatedReason) -> _Closed:
    """Close the open record, if any, after adding its last state."""
    reported = timeline if state is None else _passed(timeline, state, at)
    rescale = reported.rescale
    if rescale is None:
        return reported, None
    closed = replace(
        rescale, end=max(at, rescale.latest), terminated_reason=reason, terminal_state=reason.terminal_state
    )
    return replace(reported, rescale=None), closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Minimum, maximum, average and percentiles of durations."""

    min: timedelta
    max: timedelta
    avg: timedelta
    p50: timedelta
    p90: timedelta
    p95: timedelta
    p99: timedelta
    p999: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleSummary:
    """Statistics of rescales. Statistics of durations are None without a rescale of their kind.

    Attributes:
        total: number of rescales.
        completed: number of rescales whose plan became active.
        ignored: number of rescales that ended for another reason without a failure.
        failed: number of rescales that failed.
        in_progress: number of rescales in progress, at most one.
        duration: durations of all rescales that have ended.
        completed_duration: durations of the completed rescales.
        ignored_duration: durations of the ignored rescales.
        failed_duration: durations of the failed rescales.
        downtime: measured downtimes of the completed rescales.
    """

    total: int
    completed: int
    ignored: int
    failed: int
    in_progress: int
    duration: Durations | None
    completed_duration: Durations | None
    ignored_duration: Durations | None
    failed_duration: Durations | None
    downtime: Durations | None


def summarize(rescales: Iterable[Rescale]) -> RescaleSummary:
    """Return the statistics of these rescales; the order does not matter."""
    durations: dict[TerminalState, list[timedelta]] = {state: [] for state in TerminalState}
    downtimes: list[timedelta] = []
    in_progress = 0
    for rescale in rescales:
        if rescale.end is None or rescale.terminal_state is None:
            in_progress += 1
            continue
        durations[rescale.terminal_state].append(rescale.end - rescale.start)
        if rescale.terminal_state is TerminalState.COMPLETED and rescale.downtime is not None:
            downtimes.append(rescale.downtime)
    completed, ignored, failed = (
        durations[state] for state in (TerminalState.COMPLETED, TerminalState.IGNORED, TerminalState.FAILED)
    )
    return RescaleSummary(
        total=len(completed) + len(ignored) + len(failed) + in_progress,
        completed=len(completed),
        ignored=len(ignored),
        failed=len(failed),
        in_progress=in_progress,
        duration=_durations(completed + ignored + failed),
        completed_duration=_durations(completed),
        ignored_duration=_durations(ignored),
        failed_duration=_durations(failed),
        downtime=_durations(downtimes),
    )


def _durations(durations: list[timedelta]) -> Durations | None:
    if not durations:
        return None
    ordered = sorted(durations)
    return Durations(
        min=ordered[0],
        max=ordered[-1],
        avg=sum(ordered, timedelta(0)) / len(ordered),
        p50=_quantile(ordered, 0.5),
        p90=_quantile(ordered, 0.9),
        p95=_quantile(ordered, 0.95),
        p99=_quantile(ordered, 0.99),
        p999=_quantile(ordered, 0.999),
    )


def _quantile(ordered: list[timedelta], share: float) -> timedelta:
    """Return a quantile as in Flink (commons-math, the method of NIST): interpolated at the position `share` * (n + 1).

    Args:
        ordered: durations in ascending order, at least one.
        share: quantile, from 0.5 to 1.
    """
    position = share * (len(ordered) + 1)
    below = math.floor(position)
    if below >= len(ordered):
        return ordered[-1]
    lower, upper = ordered[below - 1], ordered[below]
    return lower + (position - below) * (upper - lower)
