"""Input of the requirements resolver, and the part of the input that a rescale policy gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.advice import Override, PolicyInput, QueryMetrics, limits_of
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.requirements.query_metrics import state_partitions
from airflow_adaptive._core.requirements.sources import latest_requirements
from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements
from airflow_adaptive._core.scheduler.state import Deploying, Restarting, SchedulerState


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverInput:
    """Values that the loop passes to the requirements resolver.

    Attributes:
        state: state of the scheduler.
        control_requests: control requests as they were last read.
        status: status of the driver of the current epoch, None without a status.
        costs: measured duration of rescales, per tier.
        at: time by the clock. The journal's time may be ahead, and a calendar would be wrong by the difference.
        consult_policy: whether the policy is consulted in any case; else only if its advice is due.
    """

    state: SchedulerState
    control_requests: ControlRequests
    status: DriverStatus | None
    costs: Mapping[Tier, timedelta]
    at: datetime
    consult_policy: bool = True


def policy_input(
    given: ResolverInput, base: Requirements, queries: Mapping[str, QueryMetrics], override: Override | None
) -> PolicyInput:
    """Return the input of a policy.

    Args:
        given: input of the resolver.
        base: requirements without a user and a policy; for the policy, they are the declared ones.
        queries: metrics per query.
        override: the user's override, None without an override.
    """
    state = given.state
    return PolicyInput(
        at=given.at,
        requirements=latest_requirements(state),
        limits=limits_of(state.job, base),
        parallelism=active_parallelism(state),
        queries=queries,
        rescale_costs=given.costs,
        state_partitions=state_partitions(state.job, queries),
        override=override,
        tier=_next_tier(state),
    )


def active_parallelism(state: SchedulerState) -> Parallelism | None:
    """Return the parallelism on which the queries run. A plan that the driver has not activated does not count."""
    match state.current:
        case Deploying(active=False, previous_plan=plan) | Restarting(previous_plan=plan):
            return None if plan is None else plan.parallelism
        case _:
            return None if state.plan is None else state.plan.parallelism


def _next_tier(state: SchedulerState) -> Tier | None:
    """Return the rescale tier that one more slot per vertex would take, None without a plan."""
    plan = state.plan
    if plan is None or plan.parallelism.keys() != state.requirements.keys():
        return None
    return rescale_tiers.cheapest_allowed_tier(
        state, plan, {name: count + 1 for name, count in plan.parallelism.items()}
    )
