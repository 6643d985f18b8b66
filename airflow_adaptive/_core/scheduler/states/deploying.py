"""Deploying: wait until the driver has activated the plan on all its slots."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks, state_transitions, steps
from airflow_adaptive._core.scheduler.events import (
    REPARTITION_ERROR,
    Event,
    PlanActivated,
    PlanRejected,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import Deploying, Plan, SchedulerState, Timer
from airflow_adaptive._core.scheduler.states.running import on_event_with_plan
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

TAKEOVER_GRACE: Final = timedelta(seconds=30)
"""Time in which the slots of the driver before it become free for a driver that has taken over: it took over before their executors had exited."""


def on_event_deploying(state: SchedulerState, deploying: Deploying, event: Event) -> Step:
    """React to an event. A failure goes to failure handling (Flink fails the job: FLINK-22692)."""
    match event:
        case PlanActivated(version=version) if version == deploying.plan.version:
            return _activated(state, deploying, event)
        case SlotsChanged() if deploying.active:
            return _activated(state, deploying, event)
        case PlanRejected(version=version) if version == deploying.plan.version and deploying.previous_plan is not None:
            return _rejected(state, deploying.previous_plan, deploying.plan, event)
        case PlanRejected(version=version) if version == deploying.plan.version and _is_below_bounds(state, deploying):
            return _plan_within_bounds(state, deploying, event)
        case TimerFired():
            return _overdue(state, deploying, event)
        case _:
            return on_event_with_plan(state, deploying, event)


def timers_deploying(state: SchedulerState, deploying: Deploying) -> tuple[Timer, ...]:
    """Return the end of `deploy_timeout`; the deadline is now if the slots of the plan cannot arrive."""
    timeout = state.options.deploy_timeout
    if _cannot_arrive(state, deploying):
        timeout = min(timeout, TAKEOVER_GRACE) if state.driver is not None and state.driver.took_over else NO_TIME
    return (Timer(name=TimerName.DEPLOY, due=deploying.since + timeout),)


def _activated(state: SchedulerState, deploying: Deploying, event: PlanActivated | SlotsChanged) -> Step:
    """Enter Executing only with all slots, because Executing would treat missing slots as lost."""
    plan, arrived, notice = deploying.plan, state.held_slots, _notice(deploying, event)
    if arrived >= plan.slots:
        reason = Reason(ReasonCode.PLAN_ACTIVATED, f"the driver has activated the plan{notice}")
        return state_transitions.go_to_executing(state, event, plan, reason)
    text = f"the plan is active on {arrived} of {plan.slots} slot(s), and the other slots have not arrived{notice}"
    active = steps.with_current(state, active=True)
    return steps.stay(active, event, Reason(ReasonCode.SLOTS_PENDING, text))


def _notice(deploying: Deploying, event: PlanActivated | SlotsChanged) -> str:
    """Return the remark about the driver, together with its first active plan only."""
    notice = event.notice if isinstance(event, PlanActivated) and deploying.previous_plan is None else None
    return "" if notice is None else f"; {notice}"


def _cannot_arrive(state: SchedulerState, deploying: Deploying) -> bool:
    """Return whether the slots cannot suffice; granted slots are unknown until the application has registered."""
    registered = state.driver is not None and (state.driver.running or state.driver.application_id is not None)
    return registered and state.available_slots < deploying.plan.slots


def _rejected(state: SchedulerState, previous_plan: Plan, plan: Plan, event: PlanRejected) -> Step:
    """Return to the previous plan, and record the rejected parallelism so that it is not tried again."""
    failure = event.failure
    named = {name.rpartition(".")[2] for name in (failure.error_class, *failure.causes)}
    fixed = REPARTITION_ERROR in named
    learned = {"cannot_repartition": failure.summary} if fixed else {"rejected": plan.parallelism}
    driver = None if state.driver is None else replace(state.driver, **learned)
    text = f"the driver rejected the plan and continues with the previous plan: {failure.summary}"
    reason = Reason(ReasonCode.PLAN_REJECTED, text)
    return state_transitions.go_to_executing(replace(state, driver=driver), event, previous_plan, reason)


def _is_below_bounds(state: SchedulerState, deploying: Deploying) -> bool:
    """Return whether the plan is below the lower bounds, which have risen since the plan was made."""
    planned = deploying.plan.parallelism
    return any(planned.get(name, bounds.lower) < bounds.lower for name, bounds in state.requirements.items())


def _plan_within_bounds(state: SchedulerState, deploying: Deploying, event: PlanRejected) -> Step:
    """Replace a first plan, or wait for more slots. The driver has started no query, because the plan has too few slots for their gang."""
    possible, why = resource_checks.possible_parallelism(state), event.failure.message
    if possible is None:
        text = f"{why}: {resource_checks.describe_shortage(state)}"
        return state_transitions.stop_and_wait(state, event, deploying.plan, Reason(ReasonCode.BELOW_LOWER_BOUND, text))
    text = f"{why}: {resource_checks.describe_change(deploying.plan.parallelism, possible)}"
    return state_transitions.plan_again(
        state, event, deploying, possible, Reason(ReasonCode.REQUIREMENTS_CHANGED, text)
    )


def _overdue(state: SchedulerState, deploying: Deploying, event: TimerFired) -> Step:
    """Make a plan for the slots that arrived or are available; if they suffice, try the next tier or handle a failure."""
    plan, (slots, reason) = deploying.plan, _arrived_slots(state, deploying, event)
    left, possible = _parallelism_on_held_slots(state, deploying), resource_checks.possible_parallelism(state, slots)
    if left is not None and deploying.previous_plan is not None:
        reason = Reason(reason.code, f"{reason.text}: the job continues on these slots")
        return state_transitions.go_to_executing_on_held_slots(state, event, deploying.previous_plan, left, reason)
    if possible is not None and slots < plan.slots:
        reason = Reason(reason.code, f"{reason.text}: the scheduler makes another plan")
        return state_transitions.plan_again(state, event, deploying, possible, reason)
    if _cannot_arrive(state, deploying):
        text = f"{reason.text}: {resource_checks.describe_shortage(state, slots)}"
        return state_transitions.stop_and_wait(state, event, plan, Reason(ReasonCode.BELOW_LOWER_BOUND, text))
    return _not_activated(state, deploying, event, slots, possible)


def _arrived_slots(state: SchedulerState, deploying: Deploying, event: TimerFired) -> tuple[int, Reason]:
    """Return the number of slots for the plan after the timeout, and the reason for another plan."""
    plan, waited = deploying.plan, (event.at - deploying.since).total_seconds()
    if _cannot_arrive(state, deploying):
        text = f"only {state.available_slots} of {plan.slots} slot(s) are left"
        return state.available_slots, Reason(ReasonCode.SLOTS_LOST, text)
    text = f"only {state.held_slots} of {plan.slots} slot(s) arrived in {waited:g} s{steps.explanation(event)}"
    return state.held_slots, Reason(ReasonCode.DEPLOY_TIMEOUT, text)


def _not_activated(
    state: SchedulerState, deploying: Deploying, event: TimerFired, slots: int, possible: Parallelism | None
) -> Step:
    """Try the next tier, or handle a failure if the plan has no next tier."""
    plan, waited = deploying.plan, (event.at - deploying.since).total_seconds()
    target_parallelism = plan.parallelism if resource_checks.is_startable(state, plan.parallelism) else possible
    higher = None if deploying.previous_plan is None else _next_tier(deploying.tier)
    if target_parallelism is not None and higher is not None and higher <= state.options.highest_rescale_tier:
        text = f"tier {deploying.tier.value} did not activate the plan in {waited:g} s{steps.explanation(event)}: tier {higher.value} follows"
        reason = Reason(ReasonCode.DEPLOY_TIMEOUT, text)
        return state_transitions.plan_again(state, event, deploying, target_parallelism, reason, higher)
    failure = Failure(
        error_class=FailureCode.DEPLOY_TIMEOUT,
        message=f"the plan was not active after {waited:g} s; {slots} slot(s) had arrived{steps.explanation(event)}",
    )
    return state_transitions.handle_failure(state, event, plan, failure, kill=True)


def _parallelism_on_held_slots(state: SchedulerState, deploying: Deploying) -> Parallelism | None:
    """Return the parallelism of the running queries on the held slots, None if this is impossible or not needed."""
    previous_plan, possible = deploying.previous_plan, resource_checks.possible_parallelism(state, state.held_slots)
    if previous_plan is None or possible is None or state.held_slots >= deploying.plan.slots:
        return None
    return possible if rescale_tiers.cheapest_allowed_tier(state, previous_plan, possible) is Tier.EXECUTORS else None


def _next_tier(tier: Tier) -> Tier | None:
    """Return the next tier, None after the last. Tier STATE is skipped, because a new driver also repartitions the state."""
    if tier is Tier.EXECUTORS:
        return Tier.QUERY
    return Tier.DRIVER if tier < Tier.DRIVER else None
