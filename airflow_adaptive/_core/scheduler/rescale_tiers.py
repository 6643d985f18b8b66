"""Rescale tiers: which tier brings a running job to another plan, and whether the tier is allowed.

`policies.rescaling.Tier` defines the tiers. A rescale uses the cheapest tier that reaches the plan, and no tier above
`highest_rescale_tier`. If a tier does not reach the plan in time, the next tier follows (`states.deploying`).
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_adaptive._core.scheduler.allocator import used_slots
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import Plan, SchedulerState


def cheapest_allowed_tier(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Tier:
    """Return the cheapest tier from the active plan to another parallelism, at most `highest_rescale_tier`."""
    return min(_cheapest_tier(state, plan, target_parallelism), state.options.highest_rescale_tier)


def is_allowed(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> bool:
    """Return whether a job that runs on a plan may change to another parallelism.

    A tier above `highest_rescale_tier` is not allowed, except for fewer slots: the running queries can run on fewer slots.
    A parallelism that the driver has rejected is not allowed either.
    """
    if is_rejected(state, target_parallelism):
        return False
    fewer = used_slots(state.job, target_parallelism) < plan.slots
    return fewer or _cheapest_tier(state, plan, target_parallelism) <= state.options.highest_rescale_tier


def is_rejected(state: SchedulerState, target_parallelism: Parallelism) -> bool:
    """Return whether the driver has rejected this parallelism."""
    return state.driver is not None and state.driver.rejected == target_parallelism


def describe_rejection(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> str:
    """Describe why `is_allowed` rejects a parallelism."""
    if is_rejected(state, target_parallelism):
        return "the driver rejected this parallelism"
    needed, highest = _cheapest_tier(state, plan, target_parallelism), state.options.highest_rescale_tier
    return f"it needs tier {needed.value} ({needed.name}), but highest_rescale_tier is {highest.value}"


def describe_redeployment(state: SchedulerState, plan: Plan) -> str:
    """Describe what a redeployment changes."""
    if has_other_deployment(state):
        return "a new driver starts" if state.replacement is None else "the prepared driver takes over"
    return f"partitions of the state {dict(plan.state_partitions)} -> {dict(state.job.state_partitions)}"


def is_redeployed(state: SchedulerState, plan: Plan) -> bool:
    """Return whether the job was redeployed with another number of state partitions or another driver."""
    return _repartitions(state, plan) or has_other_deployment(state)


def state_partitions(state: SchedulerState, before: Plan | None) -> Mapping[str, int]:
    """Return the state partitions of the next plan: as deployed, or those of the previous plan if they are fixed."""
    if before is None or _repartitions(state, before):
        return state.job.state_partitions
    return before.state_partitions


def may_repartition(state: SchedulerState) -> bool:
    """Return whether the driver may and can change the number of state partitions."""
    return state.options.highest_rescale_tier >= Tier.STATE and not _cannot_repartition(state)


def describe_fixed_partitions(state: SchedulerState, plan: Plan) -> str:
    """Describe why a redeployed job keeps the number of its state partitions, "" if it does not."""
    allowed, why = state.options.highest_rescale_tier >= Tier.STATE, _cannot_repartition(state)
    return (
        f"the number of state partitions cannot change: {why}"
        if allowed and why and _has_other_partitions(state, plan)
        else ""
    )


def _cannot_repartition(state: SchedulerState) -> str:
    return "" if state.driver is None else state.driver.cannot_repartition


def _cheapest_tier(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Tier:
    if has_other_deployment(state):
        return Tier.DRIVER
    if _repartitions(state, plan):
        return Tier.STATE
    before, read = plan.parallelism, None if state.driver is None else state.driver.vertices_read
    changed = {name for name, parallelism in target_parallelism.items() if before.get(name) != parallelism}
    # Only new queries have another parallelism of the vertices that the script reads. For others, other executors suffice.
    return Tier.QUERY if read is None or not changed.isdisjoint(read) else Tier.EXECUTORS


def _repartitions(state: SchedulerState, plan: Plan) -> bool:
    """Return whether the number of state partitions changes."""
    return may_repartition(state) and _has_other_partitions(state, plan)


def _has_other_partitions(state: SchedulerState, plan: Plan) -> bool:
    """Return whether the job declares another number of state partitions; a plan of an older version has no such number."""
    return bool(plan.state_partitions) and dict(plan.state_partitions) != dict(state.job.state_partitions)


def is_to_prepare(state: SchedulerState) -> bool:
    """Return whether the driver of a new deployment has to be prepared before it replaces the running one."""
    is_settled = state.deployment in (state.standby.settled, state.standby.refused)
    return state.options.prepare_deployments and not is_settled and _runs_other_deployment(state)


def has_other_deployment(state: SchedulerState) -> bool:
    """Return whether a driver of another deployment may replace the running one now."""
    is_refused = state.options.prepare_deployments and state.deployment == state.standby.refused
    return _runs_other_deployment(state) and not is_refused and not is_to_prepare(state)


def is_outdated(state: SchedulerState) -> bool:
    """Return whether the driver has failed for good, because a restart would have another deployment, which needs another driver."""
    return _runs_other_deployment(state) and state.current_deployment != state.next_deployment


def _runs_other_deployment(state: SchedulerState) -> bool:
    allowed = state.options.highest_rescale_tier >= Tier.DRIVER
    return allowed and state.driver is not None and state.driver.deployment != state.deployment
