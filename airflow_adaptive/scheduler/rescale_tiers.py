"""The rescale ladder: by which rung a running job gets to another plan, and whether it may.

The rungs are `policies.rescaling.Tier`; the cheapest that leads there is taken, never one above `highest_rescale_tier`. A rung that
does not hold leads to the next one: `states.deploying`.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_adaptive.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive.scheduler.policies.rescaling import Tier, cheapest_tier
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.state import Plan, SchedulerState


def cheapest_allowed_tier(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Tier:
    """The rung of the ladder that leads from a plan that runs to another parallelism, never above the highest allowed."""
    return min(_cheapest_tier(state, plan, target_parallelism), state.options.highest_rescale_tier)


def is_allowed(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> bool:
    """Whether a job that runs on a plan may be brought to another parallelism.

    Not if that takes a higher rung than is allowed; but it may do with fewer slots on every rung, since what the queries
    were built for runs on fewer as well. Nor if its driver has refused it.
    """
    if is_refused(state, target_parallelism):
        return False
    fewer = used_slots(state.job, target_parallelism) < plan.slots
    return fewer or _cheapest_tier(state, plan, target_parallelism) <= state.options.highest_rescale_tier


def is_refused(state: SchedulerState, target_parallelism: Parallelism) -> bool:
    """Return whether the driver has refused this parallelism."""
    return state.driver is not None and state.driver.refused == target_parallelism


def describe_rejection(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> str:
    """Why a parallelism that is not allowed is not, for people."""
    if is_refused(state, target_parallelism):
        return "the driver could not carry it out"
    needed, highest = _cheapest_tier(state, plan, target_parallelism), state.options.highest_rescale_tier
    return f"it takes tier {needed.value} ({needed.name}), highest_rescale_tier is {highest.value}"


def describe_redeployment(state: SchedulerState, plan: Plan) -> str:
    """What the job is to run that it does not, for people."""
    if _has_other_deployment(state):
        return "another driver is started"
    return f"partitions of the state {dict(plan.state_partitions)} -> {dict(state.job.state_partitions)}"


def is_redeployed(state: SchedulerState, plan: Plan) -> bool:
    """Whether the job is to run something else than it does, whatever its parallelism: other state, or another driver."""
    return _repartitions(state, plan) or _has_other_deployment(state)


def state_partitions(state: SchedulerState, before: Plan | None) -> Mapping[str, int]:
    """Partitions of the state under the next plan: as deployed, or those of the plan before if that can't be changed."""
    if before is None or _repartitions(state, before):
        return state.job.state_partitions
    return before.state_partitions


def may_repartition(state: SchedulerState) -> bool:
    """Whether the driver may give the state another number of partitions."""
    fixed = state.driver is not None and state.driver.keeps_state
    return state.options.highest_rescale_tier >= Tier.STATE and not fixed


def _cheapest_tier(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Tier:
    return cheapest_tier(
        plan.parallelism,
        target_parallelism,
        reads=None if state.driver is None else state.driver.reads,
        repartitions=_repartitions(state, plan),
        redeployed=_has_other_deployment(state),
    )


def _repartitions(state: SchedulerState, plan: Plan) -> bool:
    """Plans of older versions did not tell their partitions."""
    wanted = dict(state.job.state_partitions)
    return bool(plan.state_partitions) and may_repartition(state) and dict(plan.state_partitions) != wanted


def _has_other_deployment(state: SchedulerState) -> bool:
    allowed = state.options.highest_rescale_tier >= Tier.DRIVER
    return allowed and state.driver is not None and state.driver.deployment != state.deployment
