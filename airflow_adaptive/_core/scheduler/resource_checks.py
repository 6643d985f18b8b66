"""What the available slots allow: the checks that several states make before they decide."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.allocator import (
    determine_parallelism,
    minimum_slots,
    required_slots,
    used_slots,
)
from airflow_adaptive._core.scheduler.config.parsing import load_scale_up_controller
from airflow_adaptive._core.scheduler.policies.rescaling import parallelism_changed, should_rescale
from airflow_adaptive._core.scheduler.policies.transition_manager import ResourceLevel
from airflow_adaptive._core.scheduler.requirements import Parallelism, is_within
from airflow_adaptive._core.scheduler.state import Plan, SchedulerState

MAX_NAMED_VERTICES = 5
"""Number of vertices that a reason names at most, because users read reasons and every snapshot contains them."""

MIN_TRIGGER_DELAY = timedelta(seconds=10)
"""Shortest default of `max_trigger_delay`, for queries with short trigger intervals or none."""


def possible_parallelism(state: SchedulerState, slots: int | None = None) -> Parallelism | None:
    """Return the parallelism on `slots` slots (by default all available slots), None below the minimum."""
    available = state.available_slots if slots is None else slots
    return determine_parallelism(state.job, state.requirements, available)


def waiting_resources(state: SchedulerState, target_parallelism: Parallelism | None = None) -> ResourceLevel:
    """Return how far the available slots suffice to start; reaching `target_parallelism` counts as desired."""
    possible = possible_parallelism(state)
    if possible is None:
        return ResourceLevel.NONE
    reached = target_parallelism is not None and all(
        possible[name] >= target_parallelism.get(name, 0) for name in possible
    )
    return ResourceLevel.DESIRED if reached or _are_desired_slots_available(state) else ResourceLevel.SUFFICIENT


def executing_resources(state: SchedulerState, plan: Plan) -> ResourceLevel:
    """Return how far the available slots suffice for a rescale of a job that runs on `plan`."""
    possible, options = possible_parallelism(state), state.options
    controller = load_scale_up_controller(options.scale_up_controller, options.min_parallelism_increase)
    if possible is None or not rescale_tiers.is_allowed(state, plan, possible):
        return ResourceLevel.NONE
    worth_it = should_rescale(plan.parallelism, possible, state.requirements, controller)
    if not worth_it and not rescale_tiers.is_redeployed(state, plan):
        return ResourceLevel.NONE
    return ResourceLevel.DESIRED if _are_desired_slots_available(state) else ResourceLevel.SUFFICIENT


def is_startable(state: SchedulerState, target_parallelism: Parallelism) -> bool:
    """Return whether the parallelism is within the bounds and the available slots suffice for it."""
    return (
        is_within(target_parallelism, state.requirements)
        and used_slots(state.job, target_parallelism) <= state.available_slots
    )


def forced_rescale_at(
    state: SchedulerState, plan: Plan, since: datetime, planned: datetime | None, now: datetime
) -> datetime | None:
    """Return when a rescale below the minimum increase is forced (FLIP-322, `scaling-interval.max`), None if never.

    Args:
        state: state after the change.
        plan: active plan.
        since: time of the last rescale.
        planned: time that an earlier change has planned, None without one.
        now: time of the change.
    """
    interval, possible = state.options.scaling_interval_max, possible_parallelism(state)
    if interval is None or executing_resources(state, plan) >= ResourceLevel.SUFFICIENT:
        return None
    if planned is not None or possible is None or not parallelism_changed(plan.parallelism, possible):
        return planned
    overdue = now - since > interval
    return now if overdue else now + interval


def max_trigger_delay(state: SchedulerState) -> timedelta:
    """Return how long a rescale waits for a committed batch (Flink: (max failures + 1) x checkpoint interval)."""
    options, interval = state.options, state.trigger_interval or timedelta(0)
    if options.max_trigger_delay is not None:
        return options.max_trigger_delay
    return max(MIN_TRIGGER_DELAY, (options.max_failed_batches + 1) * interval)


def describe_shortage(state: SchedulerState, slots: int | None = None) -> str:
    """Describe the available and the required slots."""
    have = state.available_slots if slots is None else slots
    bounds = [f"vertex {name!r} at least {b.lower}" for name, b in state.requirements.items()]
    needed = minimum_slots(state.job, state.requirements)
    return f"have {have} slot(s), need at least {needed} ({', '.join(_first(bounds))})"


def describe_change(before: Parallelism, after: Parallelism) -> str:
    """Describe the difference between two parallelisms."""
    differing = [name for name in before if before[name] != after[name]]
    named = differing[:MAX_NAMED_VERTICES]
    more = f" and {len(differing) - len(named)} more" if len(differing) > len(named) else ""
    old, new = ({name: parallelism[name] for name in named} for parallelism in (before, after))
    return f"{old} -> {new}{more}"


def _first(texts: Sequence[str]) -> Sequence[str]:
    return (
        texts
        if len(texts) <= MAX_NAMED_VERTICES
        else [*texts[:MAX_NAMED_VERTICES], f"{len(texts) - MAX_NAMED_VERTICES} more"]
    )


def _are_desired_slots_available(state: SchedulerState) -> bool:
    return state.available_slots >= required_slots(state.job, state.requirements)
