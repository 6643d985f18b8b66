"""State transitions to a running job: WaitingForResources, Deploying, Executing and RestartingLocally."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks
from airflow_adaptive._core.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive._core.scheduler.commands import SubmitDriver
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME, Resources, TransitionManager
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Driver,
    Executing,
    Plan,
    RestartingLocally,
    SchedulerState,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.state_transitions import steps
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason


def go_to_waiting_for_resources(
    state: SchedulerState, event: Event, reason: Reason, target_parallelism: Parallelism | None = None
) -> Step:
    """Enter WaitingForResources. Slots that are available already count as a change at this moment."""
    manager = TransitionManager.begin(
        event.at,
        stabilization=state.options.resource_stabilization_timeout,
        changed=resource_checks.waiting_resources(state, target_parallelism) >= Resources.SUFFICIENT,
    )
    waiting = WaitingForResources(
        since=event.at, manager=manager, gives_up=not state.has_run, target_parallelism=target_parallelism
    )
    return steps.enter(state, event, waiting, reason)


def go_to_deploying(
    state: SchedulerState, event: Event, parallelism: Parallelism, reason: Reason, previous_plan: Plan | None = None
) -> Step:
    """Enter Deploying: on the running driver, or on a new driver with a new epoch.

    Args:
        state: state whose driver is None if a new driver must start.
        event: event that led here.
        parallelism: parallelism of the new plan.
        reason: reason of the transition.
        previous_plan: plan that the running driver executes, None if it executes none.
    """
    plan = _plan(state, parallelism, previous_plan)
    if state.driver is not None:
        repartitioned = previous_plan is not None and dict(plan.state_partitions) != dict(
            previous_plan.state_partitions
        )
        tier = Tier.STATE if repartitioned else Tier.QUERY
        return steps.enter(
            state,
            event,
            Deploying(since=event.at, plan=plan, tier=tier, previous_plan=previous_plan),
            reason,
            tier=tier,
        )
    epoch = state.epoch + 1
    submit = SubmitDriver(epoch=epoch, slots=plan.slots, cause=type(event).__name__)
    driver, proved = Driver(epoch=epoch, deployment=state.deployment), state.proved.started(state.deployment)
    submitted = replace(state, epoch=epoch, driver=driver, proved=proved)
    return steps.enter(
        submitted, event, Deploying(since=event.at, plan=plan), reason, tier=Tier.DRIVER, commands=(submit,)
    )


def _plan(state: SchedulerState, parallelism: Parallelism, previous_plan: Plan | None) -> Plan:
    """Return a plan that the queries are built for."""
    slots, version = used_slots(state.job, parallelism), state.version + 1
    idle = state.options.slot_idle_timeout > NO_TIME
    return Plan(
        version=version,
        parallelism=parallelism,
        slots=slots,
        retained_slots=max(slots, state.held_slots) if idle else slots,
        query_version=version,
        state_partitions=rescale_tiers.state_partitions(state, previous_plan),
    )


def go_to_executing(state: SchedulerState, event: Event, plan: Plan, reason: Reason, tier: Tier | None = None) -> Step:
    """Enter Executing, which starts a new cooldown."""
    options, now = state.options, event.at
    running = None if state.driver is None else replace(state.driver, running=True)
    state = replace(state, driver=running, has_run=True)
    manager = TransitionManager.begin(
        now,
        cooldown=options.scaling_interval_min,
        stabilization=options.executing_stabilization_timeout,
        max_trigger_delay=resource_checks.max_trigger_delay(state),
        extension=options.cooldown_extension,
        limit=options.scaling_interval_max,
        changed=resource_checks.executing_resources(state, plan) >= Resources.SUFFICIENT,
    )
    forced_at = resource_checks.forced_rescale_at(state, plan, since=now, planned=None, now=now)
    executing = Executing(since=now, plan=plan, manager=manager, forced_at=forced_at)
    return steps.enter(state, event, executing, reason, tier=tier)


def go_to_restarting_locally(state: SchedulerState, event: Event, plan: Plan, reason: Reason) -> Step:
    """Enter RestartingLocally."""
    return steps.enter(state, event, RestartingLocally(since=event.at, plan=plan), reason, tier=Tier.EXECUTORS)
