"""Executing: the plan is in force; follow slots, requirements, committed batches and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_adaptive.scheduler import rescale_tiers, resource_checks, state_transitions
from airflow_adaptive.scheduler.config.options import BelowLowerBound
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    BatchFailed,
    Event,
    JobRedeployed,
    RequirementsChanged,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.policies.rescaling import Tier, parallelism_changed
from airflow_adaptive.scheduler.policies.transition_manager import Phase, TransitionManager
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.state import Executing, Plan, SchedulerState, Timer
from airflow_adaptive.scheduler.state_transitions import Step
from airflow_adaptive.scheduler.states import running


def on_event(state: SchedulerState, executing: Executing, event: Event) -> Step:
    """Slots that are gone are acted on at once; everything else goes through the transition manager."""
    match event:
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _lost_slots(state, executing) > 0:
            reason = f"{_lost_slots(state, executing)} of {executing.plan.slots} slot(s) lost"
            return state_transitions.restart_locally(state, event, executing.plan, reason)
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _must_stop(state):
            reason = f"below the lower bound: {resource_checks.shortage(state)}; stops and waits"
            return state_transitions.stop_and_wait(state, event, executing.plan, reason)
        case SlotsChanged() | RequirementsChanged() | JobRedeployed():
            return _on_change(state, executing, event)
        case BatchCommitted():
            return _on_trigger(state, executing, event)
        case BatchFailed():
            return _on_batch_failed(state, executing, event)
        case TimerFired(timer=TimerName.SLOT_IDLE):
            return _free_idle_slots(state, executing, event)
        case TimerFired(timer=TimerName.FORCED_RESCALE):
            return _force(state, executing, event)
        case TimerFired():
            resources = resource_checks.executing_resources(state, executing.plan)
            return _follow(state, executing, event, executing.manager.advance(event.at, resources))
        case _:
            return running.on_event(state, executing, event)


def timers(state: SchedulerState, executing: Executing) -> Iterator[Timer]:
    """The manager's next move and the forced rescale; what happened before the job came here is looked at now."""
    if _lost_slots(state, executing) > 0 or _must_stop(state):
        yield Timer(name=TimerName.TRANSITION, due=executing.since)
    elif executing.manager.due is not None:
        yield Timer(name=TimerName.TRANSITION, due=executing.manager.due)
    if executing.plan.hold > executing.plan.slots:
        yield Timer(name=TimerName.SLOT_IDLE, due=executing.since + state.options.slot_idle_timeout)
    if executing.forced_at is not None:
        yield Timer(name=TimerName.FORCED_RESCALE, due=executing.forced_at)


def _lost_slots(state: SchedulerState, executing: Executing) -> int:
    return executing.plan.slots - state.held_slots


def _must_stop(state: SchedulerState) -> bool:
    waits = state.options.below_lower_bound is BelowLowerBound.WAIT
    return waits and resource_checks.possible_parallelism(state) is None


def _on_change(state: SchedulerState, executing: Executing, event: Event) -> Step:
    options, plan = state.options, executing.plan
    armed = replace(
        executing,
        batches_left=executing.batches_left or options.max_failed_batches,
        forced_at=resource_checks.forced_rescale_at(state, plan, executing.since, executing.forced_at, event.at),
    )
    resources = resource_checks.executing_resources(state, plan)
    return _follow(state, armed, event, executing.manager.change(event.at, resources))


def _on_trigger(state: SchedulerState, executing: Executing, event: Event) -> Step:
    resources = resource_checks.executing_resources(state, executing.plan)
    manager = executing.manager.trigger(event.at, resources)
    return _follow(state, replace(executing, batches_left=None), event, manager)


def _on_batch_failed(state: SchedulerState, executing: Executing, event: Event) -> Step:
    left = executing.batches_left
    if left == 1:
        return _on_trigger(state, executing, event)
    counted = replace(executing, batches_left=None if left is None else left - 1)
    return state_transitions.stay(replace(state, current=counted), event)


def _follow(state: SchedulerState, executing: Executing, event: Event, manager: TransitionManager) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    if possible is not None and rescale_tiers.tier(state, plan, possible) is Tier.EXECUTORS:
        # Executors come and go while the queries run: no batch has to end for that.
        manager = manager.trigger(event.at, resource_checks.executing_resources(state, plan))
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        return state_transitions.rescale(state, event, plan, possible, _why(state, plan, possible))
    followed = replace(executing, manager=manager)
    return state_transitions.stay(replace(state, current=followed), event, _why_not(state, followed, possible))


def _free_idle_slots(state: SchedulerState, executing: Executing, event: TimerFired) -> Step:
    """What a rescale left over goes back to the cluster; the plan stays as it is."""
    plan = executing.plan
    reason = f"{plan.hold - plan.slots} slot(s) idle for slot_idle_timeout: they go back to the cluster"
    return state_transitions.stay(
        state_transitions.with_current(state, plan=replace(plan, hold=plan.slots)), event, reason
    )


def _force(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    changes = possible is not None and parallelism_changed(plan.parallelism, possible)
    if possible is None or not changes or not rescale_tiers.is_allowed(state, plan, possible):
        return state_transitions.stay(
            state_transitions.with_current(state, forced_at=None), event, "nothing is left to be forced"
        )
    reason = f"forced after scaling_interval_max: {resource_checks.change(executing.plan.parallelism, possible)}"
    return state_transitions.rescale(state, event, plan, possible, reason)


def _why(state: SchedulerState, plan: Plan, possible: Parallelism) -> str:
    if parallelism_changed(plan.parallelism, possible):
        change = resource_checks.change(plan.parallelism, possible)
        return f"{state.available_slots} slot(s) are there, {plan.slots} used: {change}"
    return f"deployed anew: {rescale_tiers.remade(state, plan)}"


def _why_not(state: SchedulerState, executing: Executing, possible: Parallelism | None) -> str | None:
    plan, manager = executing.plan, executing.manager
    if possible is None:
        return f"below the lower bound: {resource_checks.shortage(state)}; keeps running"
    if not parallelism_changed(plan.parallelism, possible):
        waits = manager.first_change is not None and rescale_tiers.is_remade(state, plan)
        return f"deployed anew, not yet: {manager.phase}" if waits else None
    change = resource_checks.change(plan.parallelism, possible)
    if not rescale_tiers.is_allowed(state, plan, possible):
        return f"{change} possible, and not done: {rescale_tiers.why_not(state, plan, possible)}"
    waits_for = manager.phase if manager.first_change else "below the minimal increase"
    return f"{change} possible, not yet: {waits_for}"
