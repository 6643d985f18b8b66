"""Executing: the plan is in force; follow slots, requirements, committed batches and failures."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    BatchFailed,
    CancelRequested,
    DriverEnded,
    DriverSilent,
    Event,
    JobCompleted,
    QueryFailed,
    RequirementsChanged,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.options import BelowLowerBound
from airflow_adaptive.scheduler.policies.rescaling import parallelism_changed
from airflow_adaptive.scheduler.policies.slot_allocation import minimum_slots
from airflow_adaptive.scheduler.policies.transition_manager import Phase, Resources, TransitionManager
from airflow_adaptive.scheduler.state import Executing, Outcome, SchedulerState


def on_event(state: SchedulerState, executing: Executing, event: Event) -> Step:
    """Lost slots and failures are acted on at once; everything else goes through the transition manager."""
    plan = executing.plan
    match event:
        case SlotsChanged() if state.held_slots < plan.slots:
            reason = f"{plan.slots - state.held_slots} of {plan.slots} slot(s) lost"
            return moves.restart_locally(state, event, plan, reason)
        case SlotsChanged() | RequirementsChanged():
            return _on_change(state, executing, event)
        case BatchCommitted():
            return _on_trigger(state, executing, event)
        case BatchFailed():
            return _on_batch_failed(state, executing, event)
        case TimerFired(timer=TimerName.FORCED_RESCALE):
            return _force(state, executing, event)
        case TimerFired():
            resources = moves.executing_resources(state, plan)
            return _follow(state, executing, event, executing.manager.advance(event.at, resources))
        case JobCompleted():
            return moves.finish(state, event, Outcome.FINISHED, "all queries have ended")
        case SuspendRequested(with_savepoint=True):
            return moves.stop_with_savepoint(state, event, plan)
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked, at once")
        case CancelRequested():
            return moves.cancel(state, event)
        case _:
            return on_failure(state, executing, event)


def on_failure(state: SchedulerState, current: Executing, event: Event) -> Step:
    """A query or the driver failed."""
    match event:
        case DriverEnded(failure=failure, draw=draw) | QueryFailed(failure=failure, draw=draw):
            return moves.handle_failure(state, event, current.plan, failure, draw)
        case DriverSilent(failure=failure, draw=draw):
            return moves.handle_failure(state, event, current.plan, failure, draw, kill=True)
        case _:
            return moves.ignore(state, event)


def _on_change(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan = executing.plan
    if moves.possible_parallelism(state) is None:
        return _below_lower_bound(state, executing, event)
    resources = moves.executing_resources(state, plan)
    armed = executing
    if executing.batches_left is None:
        armed = replace(executing, batches_left=state.options.max_failed_batches)
    armed = replace(armed, forced_at=_forced_at(state, armed, event.at))
    return _follow(state, armed, event, executing.manager.change(event.at, resources))


def _on_trigger(state: SchedulerState, executing: Executing, event: Event) -> Step:
    manager = executing.manager.trigger(event.at, moves.executing_resources(state, executing.plan))
    return _follow(state, replace(executing, batches_left=None), event, manager)


def _on_batch_failed(state: SchedulerState, executing: Executing, event: Event) -> Step:
    left = executing.batches_left
    if left is None or left > 1:
        counted = replace(executing, batches_left=None if left is None else left - 1)
        return moves.stay(replace(state, current=counted), event)
    return _on_trigger(state, executing, event)


def _follow(state: SchedulerState, executing: Executing, event: Event, manager: TransitionManager) -> Step:
    plan, possible = executing.plan, moves.possible_parallelism(state)
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        return moves.rescale(state, event, plan, possible, _change(executing, possible))
    reason = None
    if possible is not None and parallelism_changed(plan.parallelism, possible):
        waits = manager.phase if manager.first_change else "below the minimal increase"
        reason = f"{_change(executing, possible)} possible, not yet: {waits}"
    return moves.stay(replace(state, current=replace(executing, manager=manager)), event, reason)


def _forced_at(state: SchedulerState, executing: Executing, now: datetime) -> datetime | None:
    """When a change that is not worth a rescale by itself is forced (FLIP-322, scaling-interval.max)."""
    interval, possible = state.options.scaling_interval_max, moves.possible_parallelism(state)
    if interval is None or possible is None or not parallelism_changed(executing.plan.parallelism, possible):
        return None
    if moves.executing_resources(state, executing.plan) >= Resources.SUFFICIENT:
        return executing.forced_at
    overdue = now - executing.since > interval
    return executing.forced_at or (now if overdue else now + interval)


def _force(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan, possible = executing.plan, moves.possible_parallelism(state)
    if possible is None or not parallelism_changed(plan.parallelism, possible):
        unforced = replace(executing, forced_at=None)
        return moves.stay(replace(state, current=unforced), event, "nothing left to force: the parallelism is the same")
    return moves.rescale(
        state, event, plan, possible, f"forced after scaling_interval_max: {_change(executing, possible)}"
    )


def _below_lower_bound(state: SchedulerState, executing: Executing, event: Event) -> Step:
    need, have = minimum_slots(state.job, state.requirements), state.available_slots
    reason = f"below the lower bound: have {have} slot(s), need at least {need}"
    if state.options.below_lower_bound is BelowLowerBound.KEEP_RUNNING:
        return moves.stay(state, event, f"{reason}; keeps running")
    return moves.stop_and_wait(state, event, executing.plan, f"{reason}; stops and waits")


def _change(executing: Executing, possible: object) -> str:
    return f"{dict(executing.plan.parallelism)} -> {possible}"
