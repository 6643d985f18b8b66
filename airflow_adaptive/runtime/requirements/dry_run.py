"""What other requirements would lead to now: the real scheduler, stepped on a copy of its state. Pure; nothing is changed.

A scale-up controller of the job's own is not asked: previews are made in Airflow's API server, which must run no code that a DAG, or
whoever can write a mirror, names. The default one answers in its place.

The state of a mirror may be some seconds old, and it knows only the slots that the job holds or was offered: a cluster may have
more for a job that asks for more. So what is told is what would happen without them, and what they would lead to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from airflow_adaptive.scheduler import machine, resource_checks
from airflow_adaptive.scheduler.allocator.slot_sharing import minimum_slots, required_slots
from airflow_adaptive.scheduler.config.parsing import MINIMAL_INCREASE
from airflow_adaptive.scheduler.events import Event, RequirementsChanged, SlotOffer, SlotsChanged, TimerFired, TimerName
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.transition_manager import Phase
from airflow_adaptive.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive.scheduler.state import (
    Deploying,
    Executing,
    Restarting,
    SchedulerState,
    WaitingForResources,
)
from airflow_adaptive.scheduler.state_transitions import Step
from airflow_adaptive.scheduler.timeline import Decision

FOLLOWED: Final = (TimerName.DECLARE, TimerName.TRANSITION, TimerName.FORCED_RESCALE)
"""Deadlines that come for sure; the others end waits for a driver or a cluster that may answer before."""

MOST_STEPS: Final = 20
"""More deadlines than this before anything moves lead nowhere."""


class Consequence(StrEnum):
    """What new requirements lead to."""

    NOTHING = "NOTHING"
    """The job goes on as it is."""
    RESCALE = "RESCALE"
    """The job goes on with another parallelism."""
    START = "START"
    """The job, which waits, starts."""
    WAIT_FOR_SLOTS = "WAIT_FOR_SLOTS"
    """The job goes on as it is until more slots are there."""
    STOP_AND_WAIT = "STOP_AND_WAIT"
    """The job stops, since what it has is below the lower bound."""
    LATER = "LATER"
    """The job is on its way from one state to another; the requirements are followed after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What new requirements lead to.

    Attributes:
        consequence: see `Consequence`.
        reason: in plain words, the scheduler's own where it has some.
        requirements: complete, without -1.
        before: parallelism in force, None if no plan is.
        after: parallelism that follows, when the slots for it are there; None if none does.
        tier: rung of the rescale ladder, None if nothing follows.
        held_back_until: the cooldown's end, None if none holds it back.
        at: when it happens at the latest if nothing else does, None if that depends on the world; a batch that is committed
            may let it happen sooner, but not before `held_back_until`.
        missing_slots: that are waited for.
        decisions: of the scheduler on the way.
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
    """What these requirements would lead to.

    Args:
        state: of the scheduler.
        requirements: accepted ones (`requirements.accept`).
        now: the time.

    Raises:
        SchedulerUsageError: they were not accepted.
    """
    state = _without_own_code(state)
    steps = tuple(_walk(state, RequirementsChanged(at=now, requirements=requirements)))
    last = steps[-1]
    told = Preview(
        consequence=Consequence.NOTHING,
        reason="the job goes on as it is",
        requirements=requirements,
        before=None if state.plan is None else state.plan.parallelism,
        held_back_until=_cooldown(state, now),
        decisions=tuple(step.decision for step in steps if step.decision is not None),
    )
    if last.transition is not None:
        return _moved(told, last)
    return _stayed(told, state, last.state, now)


def _without_own_code(state: SchedulerState) -> SchedulerState:
    return replace(state, options=replace(state.options, scale_up_controller=MINIMAL_INCREASE))


def _walk(state: SchedulerState, event: Event) -> Iterator[Step]:
    """The steps from an event on, deadline by deadline, until one moves the job or none is left."""
    for _ in range(MOST_STEPS):
        step = machine.step(state, event)
        yield step
        state = step.state
        due = [timer for timer in machine.timers(state) if timer.name in FOLLOWED]
        if step.transition is not None or not due:
            return
        event = TimerFired(at=max(due[0].due, event.at), timer=due[0].name, version=state.version)


def _moved(told: Preview, step: Step) -> Preview:
    """What the transition at the end of the walk means."""
    transition = step.transition
    if transition is None:
        return told
    moved = replace(told, reason=transition.reason, at=transition.at, tier=transition.tier)
    match step.state.current:
        case Restarting(target_parallelism=None, failure=None):
            missing = minimum_slots(step.state.job, step.state.requirements) - step.state.available_slots
            return replace(
                moved, consequence=Consequence.STOP_AND_WAIT, missing_slots=max(missing, 0), held_back_until=None
            )
        case Restarting(target_parallelism=target_parallelism) if target_parallelism is not None:
            return replace(moved, consequence=Consequence.RESCALE, after=target_parallelism)
        case Deploying(plan=plan, previous_plan=previous_plan):
            consequence = Consequence.START if previous_plan is None else Consequence.RESCALE
            return replace(moved, consequence=consequence, after=plan.parallelism)
        case _:
            return replace(moved, consequence=Consequence.LATER)


def _stayed(told: Preview, before: SchedulerState, after: SchedulerState, now: datetime) -> Preview:
    """Why nothing moves, and what more slots would change."""
    if not isinstance(after.current, Executing | WaitingForResources):
        reason = f"the requirements are noted, and followed when the job is through with {after.name}"
        return replace(told, consequence=Consequence.LATER, reason=reason)
    missing = required_slots(after.job, after.requirements) - after.available_slots
    if isinstance(after.current, WaitingForResources):
        missing = minimum_slots(after.job, after.requirements) - after.available_slots
    if missing <= 0 or _same_want(before, after):
        return replace(told, reason=_why_nothing(told, missing), held_back_until=None)
    arrived = _with_slots(after, missing, now)
    return replace(
        told,
        consequence=Consequence.WAIT_FOR_SLOTS,
        reason=f"{missing} more slot(s) are asked for; have {after.available_slots}",
        missing_slots=missing,
        after=arrived.after,
        tier=arrived.tier,
    )


def _same_want(before: SchedulerState, after: SchedulerState) -> bool:
    """Whether the job runs and wants as many slots as before."""
    same = required_slots(before.job, before.requirements) == required_slots(after.job, after.requirements)
    return same and isinstance(after.current, Executing) and resource_checks.possible_parallelism(after) is not None


def _why_nothing(told: Preview, missing: int) -> str:
    said = told.decisions[-1].reason if told.decisions else told.reason
    return f"{said}; {missing} slot(s) are still waited for" if missing > 0 else said


def _with_slots(state: SchedulerState, missing: int, now: datetime) -> Preview:
    """What would happen if the missing slots came now."""
    told = Preview(consequence=Consequence.NOTHING, reason="", requirements=state.requirements)
    offers = (*state.offers, SlotOffer(worker="", free=missing))
    return _moved(told, [*_walk(state, SlotsChanged(at=now, offers=offers))][-1])


def _cooldown(state: SchedulerState, now: datetime) -> datetime | None:
    """When the cooldown ends, None if there is none."""
    match state.current:
        case Executing(manager=manager) if manager.phase is Phase.COOLDOWN and manager.cooldown_ends > now:
            return manager.cooldown_ends
        case _:
            return None
