"""Dry run of resource requirements: the real scheduler steps on a copy of its state. The dry run is pure and changes nothing.

The dry run runs in Airflow's API server, which must not run code that a DAG or the published state names. So the dry run uses the default
scale-up controller in place of a controller of the job.

The published state may be some seconds old, and contains only the slots that the job holds or was offered. The cluster may have more
slots. The result therefore describes what happens without more slots, and what happens when the missing slots arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from airflow_adaptive._core.scheduler import machine, resource_checks
from airflow_adaptive._core.scheduler.allocator import minimum_slots, required_slots
from airflow_adaptive._core.scheduler.config.parsing import MINIMAL_INCREASE
from airflow_adaptive._core.scheduler.events import (
    Event,
    RequirementsChanged,
    SlotOffer,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive._core.scheduler.state import Deploying, Executing, Restarting, SchedulerState, WaitingForResources
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Decision

FOLLOWED: Final = (TimerName.APPLY_REQUIREMENTS, TimerName.TRANSITION, TimerName.FORCED_RESCALE)
"""Timers that always fire. The other timers limit the wait for a driver or a cluster, which may answer earlier."""

MAX_STEPS: Final = 20
"""Number of timers after which the dry run ends without a state transition."""


class Consequence(StrEnum):
    """Consequence of new requirements."""

    NOTHING = "NOTHING"
    """The job continues unchanged."""
    RESCALE = "RESCALE"
    """The job continues with another parallelism."""
    START = "START"
    """The job, which waits for slots, starts."""
    WAIT_FOR_SLOTS = "WAIT_FOR_SLOTS"
    """The job continues unchanged until more slots are available."""
    STOP_AND_WAIT = "STOP_AND_WAIT"
    """The job stops, because its slots do not suffice for the lower bounds."""
    LATER = "LATER"
    """The job is between two states, and follows the requirements afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Result of a dry run.

    Attributes:
        consequence: consequence of the requirements.
        reason: human-readable reason; the reason of the scheduler if the scheduler gives one.
        requirements: complete requirements, without -1.
        before: active parallelism, None without a plan.
        after: parallelism that follows when its slots are available, None if no change follows.
        tier: rescale tier of the change, None without a change.
        held_back_until: end of the cooldown that delays the change, None without a cooldown.
        at: latest time of the change if no other event occurs, None if the time depends on external events. A committed batch
            may cause the change earlier, but not before `held_back_until`.
        missing_slots: number of slots for which the job waits.
        decisions: decisions of the scheduler during the dry run.
    """

    consequence: Consequence
    reason: str
    requirements: Requirements
    before: Parallelism | None = None
    after: Parallelism | None = None
    tier: Tier | None = None
    held_back_until: datetime | None = None
    at: datetime | None = None
    missing_slots: int = 0
    decisions: tuple[Decision, ...] = ()


def preview(state: SchedulerState, requirements: Requirements, now: datetime) -> Preview:
    """Return the consequence of requirements.

    Args:
        state: state of the scheduler.
        requirements: accepted requirements (`_core.scheduler.requirements.accept`).
        now: time.

    Raises:
        SchedulerUsageError: the requirements are not accepted.
    """
    state = replace(state, options=replace(state.options, scale_up_controller=MINIMAL_INCREASE))
    steps = tuple(_steps(state, RequirementsChanged(at=now, requirements=requirements)))
    last = steps[-1]
    result = Preview(
        consequence=Consequence.NOTHING,
        reason="the job continues unchanged",
        requirements=requirements,
        before=None if state.plan is None else state.plan.parallelism,
        held_back_until=_cooldown(state, now),
        decisions=tuple(step.decision for step in steps if step.decision is not None),
    )
    if last.transition is not None:
        return _after_transition(result, last)
    return _without_transition(result, state, last.state, now)


def _steps(state: SchedulerState, event: Event) -> Iterator[Step]:
    """Yield the steps after an event, timer by timer, until a step has a state transition or no timer is left."""
    for _ in range(MAX_STEPS):
        step = machine.step(state, event)
        yield step
        state = step.state
        due = [timer for timer in machine.timers(state) if timer.name in FOLLOWED]
        if step.transition is not None or not due:
            return
        event = TimerFired(at=max(due[0].due, event.at), timer=due[0].name, version=state.version)


def _after_transition(result: Preview, step: Step) -> Preview:
    """Return the consequence of the state transition in the last step."""
    transition = step.transition
    if transition is None:
        return result
    changed = replace(result, reason=transition.reason, at=transition.at, tier=transition.tier)
    match step.state.current:
        case Restarting(target_parallelism=None, failure=None):
            missing = minimum_slots(step.state.job, step.state.requirements) - step.state.available_slots
            return replace(
                changed, consequence=Consequence.STOP_AND_WAIT, missing_slots=max(missing, 0), held_back_until=None
            )
        case Restarting(target_parallelism=target_parallelism) if target_parallelism is not None:
            return replace(changed, consequence=Consequence.RESCALE, after=target_parallelism)
        case Deploying(plan=plan, previous_plan=previous_plan):
            consequence = Consequence.START if previous_plan is None else Consequence.RESCALE
            return replace(changed, consequence=consequence, after=plan.parallelism)
        case _:
            return replace(changed, consequence=Consequence.LATER)


def _without_transition(result: Preview, before: SchedulerState, after: SchedulerState, now: datetime) -> Preview:
    """Return why no state transition follows, and the consequence of more slots."""
    if not isinstance(after.current, Executing | WaitingForResources):
        reason = f"the job follows the requirements when it leaves the state {after.name}"
        return replace(result, consequence=Consequence.LATER, reason=reason)
    missing = required_slots(after.job, after.requirements) - after.available_slots
    if isinstance(after.current, WaitingForResources):
        missing = minimum_slots(after.job, after.requirements) - after.available_slots
    if missing <= 0 or _requires_same_slots(before, after):
        return replace(result, reason=_reason_for_nothing(result, missing), held_back_until=None)
    arrived = _with_slots(after, missing, now)
    return replace(
        result,
        consequence=Consequence.WAIT_FOR_SLOTS,
        reason=f"{missing} more slot(s) are required; have {after.available_slots}",
        missing_slots=missing,
        after=arrived.after,
        tier=arrived.tier,
    )


def _requires_same_slots(before: SchedulerState, after: SchedulerState) -> bool:
    """Return whether the job runs and requires the same number of slots as before."""
    same = required_slots(before.job, before.requirements) == required_slots(after.job, after.requirements)
    return same and isinstance(after.current, Executing) and resource_checks.possible_parallelism(after) is not None


def _reason_for_nothing(result: Preview, missing: int) -> str:
    reason = result.decisions[-1].reason if result.decisions else result.reason
    return f"{reason}; the job still waits for {missing} slot(s)" if missing > 0 else reason


def _with_slots(state: SchedulerState, missing: int, now: datetime) -> Preview:
    """Return the consequence of the arrival of the missing slots."""
    result = Preview(consequence=Consequence.NOTHING, reason="", requirements=state.requirements)
    offers = (*state.offers, SlotOffer(worker="", free=missing))
    return _after_transition(
        result, [*_steps(state, SlotsChanged(at=now, offers=offers, standby=state.standby_offer))][-1]
    )


def _cooldown(state: SchedulerState, now: datetime) -> datetime | None:
    """Return the end of the cooldown, None without a cooldown."""
    match state.current:
        case Executing(manager=manager) if manager.phase is Phase.COOLDOWN and manager.cooldown_ends > now:
            return manager.cooldown_ends
        case _:
            return None
