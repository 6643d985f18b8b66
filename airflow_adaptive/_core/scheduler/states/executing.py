"""Executing: follow slots, requirements, committed batches and failures while the plan is active."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks
from airflow_adaptive._core.scheduler.config.options import BelowLowerBound
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    Event,
    JobRedeployed,
    RequirementsChanged,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.rescaling import Tier, parallelism_changed
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase, TransitionManager
from airflow_adaptive._core.scheduler.requirements import Parallelism, is_within
from airflow_adaptive._core.scheduler.state import Executing, Plan, SchedulerState, Timer
from airflow_adaptive._core.scheduler.state_transitions import restart, start, steps
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.states import running
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

_WAITS_FOR = {
    Phase.COOLDOWN: ReasonCode.COOLDOWN,
    Phase.STABILIZING: ReasonCode.STABILIZATION,
    Phase.STABILIZED: ReasonCode.BATCH_BOUNDARY,
}
"""What a rescale waits for in each phase of the transition manager that has seen a change."""


def on_event(state: SchedulerState, executing: Executing, event: Event) -> Step:
    """React to lost slots at once; the transition manager decides when to act on other changes."""
    match event:
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _lost_slots(state, executing) > 0:
            text = f"{_lost_slots(state, executing)} of {executing.plan.slots} slot(s) lost"
            return start.go_to_restarting_locally(state, event, executing.plan, Reason(ReasonCode.SLOTS_LOST, text))
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _must_stop(state):
            text = f"below the lower bound: {resource_checks.describe_shortage(state)}; the job stops and waits"
            reason = Reason(ReasonCode.BELOW_LOWER_BOUND, text)
            return restart.stop_and_wait(state, event, executing.plan, reason)
        case SlotsChanged() | RequirementsChanged() | JobRedeployed():
            return _on_change(state, executing, event)
        case BatchCommitted():
            return _on_trigger(state, executing, event)
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
    """Return the deadlines of the manager and of a forced rescale; earlier losses are due at once."""
    if _lost_slots(state, executing) > 0 or _must_stop(state):
        yield Timer(name=TimerName.TRANSITION, due=executing.since)
    elif executing.manager.due is not None:
        yield Timer(name=TimerName.TRANSITION, due=executing.manager.due)
    if executing.plan.retained_slots > executing.plan.slots:
        yield Timer(name=TimerName.SLOT_IDLE, due=executing.since + state.options.slot_idle_timeout)
    if executing.forced_at is not None:
        yield Timer(name=TimerName.FORCED_RESCALE, due=executing.forced_at)


def _lost_slots(state: SchedulerState, executing: Executing) -> int:
    return executing.plan.slots - state.held_slots


def _must_stop(state: SchedulerState) -> bool:
    waits = state.options.below_lower_bound is BelowLowerBound.WAIT
    return waits and resource_checks.possible_parallelism(state) is None


def _on_change(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan = executing.plan
    armed = replace(
        executing,
        forced_at=resource_checks.forced_rescale_at(state, plan, executing.since, executing.forced_at, event.at),
    )
    resources = resource_checks.executing_resources(state, plan)
    return _follow(state, armed, event, executing.manager.change(event.at, resources))


def _on_trigger(state: SchedulerState, executing: Executing, event: Event) -> Step:
    resources = resource_checks.executing_resources(state, executing.plan)
    manager = executing.manager.trigger(event.at, resources)
    return _follow(state, executing, event, manager)


def _follow(state: SchedulerState, executing: Executing, event: Event, manager: TransitionManager) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    if possible is not None and rescale_tiers.cheapest_allowed_tier(state, plan, possible) is Tier.EXECUTORS:
        # Executors come and go while the queries run: no batch has to end for that.
        manager = manager.trigger(event.at, resource_checks.executing_resources(state, plan))
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        return restart.rescale(state, event, plan, possible, _why(state, plan, possible))
    followed = replace(executing, manager=manager)
    return steps.stay(replace(state, current=followed), event, _why_not(state, event, followed, possible))


def _free_idle_slots(state: SchedulerState, executing: Executing, event: TimerFired) -> Step:
    """Release the slots that the plan does not use."""
    plan = executing.plan
    text = f"{plan.retained_slots - plan.slots} slot(s) were idle for slot_idle_timeout: the job releases them"
    freed = steps.with_current(state, plan=replace(plan, retained_slots=plan.slots))
    return steps.stay(freed, event, Reason(ReasonCode.SLOTS_IDLE, text))


def _force(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    changes = possible is not None and parallelism_changed(plan.parallelism, possible)
    if possible is None or not changes or not rescale_tiers.is_allowed(state, plan, possible):
        reason = Reason(ReasonCode.NO_PARALLELISM_CHANGE, "no forced rescale is necessary")
        return steps.stay(steps.with_current(state, forced_at=None), event, reason)
    text = f"forced after scaling_interval_max: {resource_checks.describe_change(executing.plan.parallelism, possible)}"
    return restart.rescale(state, event, plan, possible, Reason(ReasonCode.FORCED_RESCALE, text))


def _why(state: SchedulerState, plan: Plan, possible: Parallelism) -> Reason:
    if parallelism_changed(plan.parallelism, possible):
        change = resource_checks.describe_change(plan.parallelism, possible)
        within = is_within(plan.parallelism, state.requirements)
        code = ReasonCode.SLOTS_AVAILABLE if within else ReasonCode.REQUIREMENTS_CHANGED
        return Reason(code, f"{state.available_slots} slot(s) are available, {plan.slots} are used: {change}")
    return Reason(ReasonCode.JOB_REDEPLOYED, f"redeployed: {rescale_tiers.describe_redeployment(state, plan)}")


def _why_not(state: SchedulerState, event: Event, executing: Executing, possible: Parallelism | None) -> Reason | None:
    plan, manager = executing.plan, executing.manager
    if possible is None:
        text = f"below the lower bound: {resource_checks.describe_shortage(state)}; the job keeps running"
        return Reason(ReasonCode.BELOW_LOWER_BOUND, text)
    if not parallelism_changed(plan.parallelism, possible):
        if isinstance(event, JobRedeployed) and (fixed := rescale_tiers.describe_fixed_partitions(state, plan)):
            return Reason(ReasonCode.TIER_NOT_ALLOWED, fixed)
        waits = manager.first_change is not None and rescale_tiers.is_redeployed(state, plan)
        return (
            Reason(_WAITS_FOR[manager.phase], f"redeployed, but the rescale must wait: phase {manager.phase}")
            if waits
            else None
        )
    change = resource_checks.describe_change(plan.parallelism, possible)
    if not rescale_tiers.is_allowed(state, plan, possible):
        code = ReasonCode.PLAN_REJECTED if rescale_tiers.is_rejected(state, possible) else ReasonCode.TIER_NOT_ALLOWED
        return Reason(
            code,
            f"{change} is possible, but is not carried out: {rescale_tiers.describe_rejection(state, plan, possible)}",
        )
    if manager.first_change is None:
        return Reason(ReasonCode.BELOW_MINIMUM_INCREASE, f"{change} is possible, but is below the minimum increase")
    return Reason(_WAITS_FOR[manager.phase], f"{change} is possible, but must wait: phase {manager.phase}")
