"""Derives the directive for the driver from the state of the scheduler. Each journal document contains the directive."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from airflow_adaptive._core.protocol.documents import Action, Directive, DriverPlan, StandbyDirective
from airflow_adaptive._core.scheduler import rescale_tiers, standby
from airflow_adaptive._core.scheduler.allocator import assign, required_slots
from airflow_adaptive._core.scheduler.job_graph import JobVertex
from airflow_adaptive._core.scheduler.machine import default_requirements
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Executing,
    Failing,
    Finished,
    Plan,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive._engine.spec import ExecutorShape


def directive(
    state: SchedulerState, nonce: str, executor: ExecutorShape, of_standby: ExecutorShape | None = None
) -> Directive:
    """Return the directive that follows from the state, for executors of the driver, and of the standby if those differ."""
    plan = state.plan
    return Directive(
        epoch=state.epoch,
        nonce=nonce,
        version=0 if plan is None else plan.version,
        action=action(state),
        plan=None if plan is None else _driver_plan(state, plan, executor),
        standby=_standby(state, of_standby or executor),
        is_move=isinstance(state.current, Restarting) and state.current.is_move,
    )


def _standby(state: SchedulerState, executor: ExecutorShape) -> StandbyDirective | None:
    """Return the directive of the standby. The graph of its deployment may have vertices that the running plan does not contain."""
    driver, plan = state.standby.driver, state.plan
    if driver is None:
        return None
    if plan is not None:
        bounds = state.requirements
        plan = replace(plan, parallelism={name: plan.parallelism.get(name, it.lower) for name, it in bounds.items()})
    return StandbyDirective(
        epoch=driver.epoch,
        plan=None if plan is None else _driver_plan(state, plan, executor),
        holds_executors=standby.holds_executors(state),
    )


def executors(slots: int, executor: ExecutorShape) -> int:
    """Return the number of executors that provide at least this number of slots."""
    return math.ceil(slots / executor.cores)


def action(state: SchedulerState) -> Action:
    """Return the action that the state allows the driver of the current epoch."""
    match state.current:
        case Deploying() | Executing() | RestartingLocally():
            return Action.RUN
        case Restarting(in_place=True, failure=None):
            # The queries stay on the old plan until the journal contains the new one.
            return Action.RUN
        case Restarting(in_place=True) | WaitingForResources() if state.driver is not None:
            return Action.HOLD
        case (
            Created()
            | WaitingForResources()
            | Restarting()
            | StopWithSavepoint()
            | Canceling()
            | Failing()
            | Finished()
        ):
            # A driver that starts late, after the scheduler gave it up, must stop too: it would occupy slots that the next driver needs.
            return Action.STOP


def _driver_plan(state: SchedulerState, plan: Plan, executor: ExecutorShape) -> DriverPlan:
    return DriverPlan(
        parallelism=dict(plan.parallelism),
        executors=executors(plan.slots, executor),
        retained_executors=executors(plan.retained_slots, executor),
        load_balance_mode=state.options.load_balance_mode.value,
        remaining_per_worker=_keep(state, plan, executor),
        state_partitions={**(plan.state_partitions or state.job.state_partitions), **state.job.stateless_partitions},
        query_version=plan.query_version,
        repartition=rescale_tiers.may_repartition(state),
        most_slots=most_slots(state),
        pool_weights={name: _slots(plan, vertices) for name, vertices in state.job.groups.items()},
    )


def most_slots(state: SchedulerState) -> int:
    """Return the slots of a plan with all upper bounds: those of the declaration, or higher ones of an override."""
    declared = default_requirements(state.job, state.options)
    highest = {name: max(it.upper, state.requirements.get(name, it).upper) for name, it in declared.items()}
    return required_slots(state.job, {name: ParallelismRange(1, upper) for name, upper in highest.items()})


def _slots(plan: Plan, vertices: Iterable[JobVertex]) -> int:
    """Return the slots of a slot sharing group. The plan does not contain vertices that were deployed later; they count as one slot."""
    return max(plan.parallelism.get(vertex.name, 1) for vertex in vertices)


def _keep(state: SchedulerState, plan: Plan, executor: ExecutorShape) -> dict[str, int]:
    """Return the number of executors to keep on each worker, empty if no executor is surplus."""
    if plan.retained_slots > plan.slots or state.held_slots <= plan.slots:
        return {}
    held = [replace(offer, free=0) for offer in state.offers if offer.held]
    assignment = assign(state.job, plan.parallelism, held, state.options.load_balance_mode)
    kept = {} if assignment is None else assignment.slots_per_worker
    return {offer.address: executors(kept.get(offer.worker, 0), executor) for offer in held}
