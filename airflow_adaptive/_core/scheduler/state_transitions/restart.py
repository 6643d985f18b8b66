"""State transitions to another plan: the rescale tiers, and the restart of a job whose slots do not suffice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import Deploying, Plan, Restarting, SchedulerState
from airflow_adaptive._core.scheduler.state_transitions import start, steps
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason


def rescale(
    state: SchedulerState,
    event: Event,
    plan: Plan,
    target_parallelism: Parallelism,
    reason: Reason,
    least: Tier = Tier.EXECUTORS,
) -> Step:
    """Change to another parallelism by the cheapest tier: enter Deploying at once, or Restarting without a backoff.

    Args:
        state: state with a running driver.
        event: event that led here.
        plan: active plan.
        target_parallelism: parallelism of the new plan.
        reason: reason of the transition.
        least: lowest tier to use.
    """
    tier = max(least, rescale_tiers.cheapest_allowed_tier(state, plan, target_parallelism))
    if tier is Tier.EXECUTORS:
        return _scale(state, event, plan, target_parallelism, reason)
    in_place = tier < Tier.DRIVER
    target = restarting(
        state,
        event,
        plan,
        in_place=in_place,
        target_parallelism=target_parallelism,
        previous_plan=plan if in_place else None,
    )
    return steps.enter(counted(state, rescales=1), event, target, reason, tier=tier)


def plan_again(
    state: SchedulerState,
    event: Event,
    deploying: Deploying,
    target_parallelism: Parallelism,
    reason: Reason,
    least: Tier = Tier.QUERY,
) -> Step:
    """Leave Deploying for another plan or a higher tier: rescale the running plan, or start again if no plan runs."""
    if deploying.previous_plan is not None:
        return rescale(state, event, deploying.previous_plan, target_parallelism, reason, least)
    target = restarting(state, event, deploying.plan, in_place=True, target_parallelism=target_parallelism)
    return steps.enter(counted(state, rescales=1), event, target, reason, tier=Tier.QUERY)


def go_to_executing_on_held_slots(
    state: SchedulerState, event: Event, plan: Plan, target_parallelism: Parallelism, reason: Reason
) -> Step:
    """Enter Executing on the slots that are left, which the queries use already; only the plan changes (tier 0).

    Args:
        state: state whose held slots are those of the target parallelism.
        event: event that led here.
        plan: plan of the running queries.
        target_parallelism: parallelism on the slots that are left.
        reason: reason of the transition.
    """
    accepted = _scaled(state, plan, target_parallelism)
    return start.go_to_executing(
        replace(state, num_rescales=state.num_rescales + 1), event, accepted, reason, tier=Tier.EXECUTORS
    )


def _scale(state: SchedulerState, event: Event, plan: Plan, target_parallelism: Parallelism, reason: Reason) -> Step:
    """Enter Deploying with other executors for the running queries (tier 0)."""
    target = Deploying(
        since=event.at, plan=_scaled(state, plan, target_parallelism), tier=Tier.EXECUTORS, previous_plan=plan
    )
    scaling = replace(state, num_rescales=state.num_rescales + 1)
    return steps.enter(scaling, event, target, reason, tier=Tier.EXECUTORS)


def _scaled(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Plan:
    slots = used_slots(state.job, target_parallelism)
    return replace(plan, version=state.version + 1, parallelism=target_parallelism, slots=slots, retained_slots=slots)


def stop_and_wait(state: SchedulerState, event: Event, plan: Plan, reason: Reason) -> Step:
    """Enter Restarting and release all slots, because the available slots are below the minimum (FLIP-291)."""
    target = restarting(state, event, plan, in_place=False)
    return steps.enter(counted(state, rescales=1), event, target, reason, tier=Tier.DRIVER)


def restarting(
    state: SchedulerState,
    event: Event,
    plan: Plan,
    *,
    in_place: bool,
    target_parallelism: Parallelism | None = None,
    previous_plan: Plan | None = None,
    failure: Failure | None = None,
    backoff: timedelta = NO_TIME,
) -> Restarting:
    """Return the data of Restarting: a restart in place stops no driver; otherwise the driver stops first, if it lives."""
    lives = state.driver is not None
    return Restarting(
        since=event.at,
        plan=plan,
        target_parallelism=target_parallelism,
        previous_plan=previous_plan,
        in_place=in_place and lives,
        failure=failure,
        backoff=backoff,
        stopped_at=event.at if in_place or not lives else None,
        stop_deadline=event.at + state.options.stop_timeout,
    )


def counted(state: SchedulerState, rescales: int = 0) -> SchedulerState:
    """Return the state with one more restart."""
    return replace(state, num_restarts=state.num_restarts + 1, num_rescales=state.num_rescales + rescales)
