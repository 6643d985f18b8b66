"""State transitions that the handlers share: how to stay in a state, and how to enter each state.

Every handler in `states` returns the `Step` that one of these functions builds. A state is entered by one function only
(`go_to_<state>`), so that the state begins in the same way from everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from airflow_adaptive.scheduler import rescale_tiers, resource_checks
from airflow_adaptive.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive.scheduler.commands import Command, KillDriver, SubmitDriver
from airflow_adaptive.scheduler.config.restart_strategies import describe_strategy
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    JobRedeployed,
    PlanActivated,
    RequirementsChanged,
    SlotsChanged,
    TimerFired,
)
from airflow_adaptive.scheduler.policies import restart_backoff
from airflow_adaptive.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive.scheduler.policies.jitter import jitter
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.transition_manager import Resources, TransitionManager
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.state import (
    Canceling,
    Current,
    Deploying,
    Driver,
    Executing,
    Failing,
    Finished,
    Outcome,
    Plan,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive.scheduler.timeline import Decision, Reason, ReasonCode, Rescale, Transition

NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event led to.

    Attributes:
        state: new state of the scheduler.
        commands: commands to the cluster, in order.
        transition: change of the state, None if the state stays.
        decision: reason of the transition, or of no transition; None if the event needs no explanation.
        rescale: rescale that ended with this step, None otherwise.
    """

    state: SchedulerState
    commands: tuple[Command, ...] = ()
    transition: Transition | None = None
    decision: Decision | None = None
    rescale: Rescale | None = None


# ---- staying --------------------------------------------------------------------------------------------------------


def stay(state: SchedulerState, event: Event, reason: Reason | None = None) -> Step:
    """Stay in the state; give a reason if the event needs an explanation."""
    return Step(state=state, decision=None if reason is None else _decision(state, event, reason))


def ignore(state: SchedulerState, event: Event) -> Step:
    """Stay in the state, because the event has no meaning in this state."""
    match event:
        case SlotsChanged() | BatchCommitted() | PlanActivated():
            return stay(state, event)
        case RequirementsChanged():
            text = f"the requirements are recorded, and nothing changes in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.REQUIREMENTS_CHANGED, text))
        case JobRedeployed():
            text = f"the new deployment is recorded, and nothing changes in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.JOB_REDEPLOYED, text))
        case _:
            text = f"{type(event).__name__} ignored in the state {state.name}"
            return stay(state, event, Reason(ReasonCode.EVENT_IGNORED, text))


def with_current(state: SchedulerState, **changes: Any) -> SchedulerState:
    """Return the state with other data of the current state, without a transition."""
    return replace(state, current=replace(state.current, **changes))


def kill_again(state: SchedulerState, event: Event, **changes: Any) -> Step:
    """Kill a driver that has not stopped within `stop_timeout`, and start the timeout again."""
    deadline = event.at + state.options.stop_timeout
    killed = with_current(state, stop_deadline=deadline, **changes)
    step = stay(killed, event, Reason(ReasonCode.STOP_TIMEOUT, "the driver did not stop in time, and is killed"))
    return replace(step, commands=kill_driver(state, event))


def kill_driver(state: SchedulerState, event: Event) -> tuple[Command, ...]:
    """Return the command that kills the driver, if the state has a driver."""
    driver = state.driver
    if driver is None:
        return ()
    return (KillDriver(epoch=driver.epoch, submission_id=driver.submission_id, cause=type(event).__name__),)


# ---- on the way to running ------------------------------------------------------------------------------------------


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
    return _enter(state, event, waiting, reason)


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
        return _enter(
            state,
            event,
            Deploying(since=event.at, plan=plan, tier=tier, previous_plan=previous_plan),
            reason,
            tier=tier,
        )
    epoch = state.epoch + 1
    submit = SubmitDriver(epoch=epoch, slots=plan.slots, cause=type(event).__name__)
    submitted = replace(state, epoch=epoch, driver=Driver(epoch=epoch, deployment=state.deployment))
    return _enter(submitted, event, Deploying(since=event.at, plan=plan), reason, tier=Tier.DRIVER, commands=(submit,))


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
    return _enter(state, event, executing, reason, tier=tier)


def go_to_restarting_locally(state: SchedulerState, event: Event, plan: Plan, reason: Reason) -> Step:
    """Enter RestartingLocally."""
    return _enter(state, event, RestartingLocally(since=event.at, plan=plan), reason, tier=Tier.EXECUTORS)


# ---- Restarting -----------------------------------------------------------------------------------------------------


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
    target = _restarting(
        state,
        event,
        plan,
        in_place=in_place,
        target_parallelism=target_parallelism,
        previous_plan=plan if in_place else None,
    )
    return _enter(_counted(state, rescales=1), event, target, reason, tier=tier)


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
    target = _restarting(state, event, deploying.plan, in_place=True, target_parallelism=target_parallelism)
    return _enter(_counted(state, rescales=1), event, target, reason, tier=Tier.QUERY)


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
    return go_to_executing(
        replace(state, num_rescales=state.num_rescales + 1), event, accepted, reason, tier=Tier.EXECUTORS
    )


def _scale(state: SchedulerState, event: Event, plan: Plan, target_parallelism: Parallelism, reason: Reason) -> Step:
    """Enter Deploying with other executors for the running queries (tier 0)."""
    target = Deploying(
        since=event.at, plan=_scaled(state, plan, target_parallelism), tier=Tier.EXECUTORS, previous_plan=plan
    )
    scaling = replace(state, num_rescales=state.num_rescales + 1)
    return _enter(scaling, event, target, reason, tier=Tier.EXECUTORS)


def _scaled(state: SchedulerState, plan: Plan, target_parallelism: Parallelism) -> Plan:
    slots = used_slots(state.job, target_parallelism)
    return replace(plan, version=state.version + 1, parallelism=target_parallelism, slots=slots, retained_slots=slots)


def stop_and_wait(state: SchedulerState, event: Event, plan: Plan, reason: Reason) -> Step:
    """Enter Restarting and release all slots, because the available slots are below the minimum (FLIP-291)."""
    target = _restarting(state, event, plan, in_place=False)
    return _enter(_counted(state, rescales=1), event, target, reason, tier=Tier.DRIVER)


def handle_failure(state: SchedulerState, event: Event, plan: Plan, failure: Failure, *, kill: bool = False) -> Step:
    """Enter Restarting with the backoff of the restart strategy, or fail the job.

    The restart strategy counts recoverable failures only.

    Args:
        state: state whose driver is None if the driver has ended.
        event: event that reported the failure.
        plan: plan that ran, or that was being deployed.
        failure: the failure.
        kill: whether to kill the driver, because it may no longer respond.
    """
    if not can_recover(state, failure):
        text = f"the failure is not recoverable: {failure.summary}"
        return go_to_failing(state, event, failure, Reason(ReasonCode.NOT_RECOVERABLE, text))
    strategy = state.options.restart_strategy
    chance = jitter(state.job.job, state.epoch, state.restarts.attempts)
    record = restart_backoff.notify(strategy, state.restarts, event.at, chance)
    state = replace(state, restarts=record)
    if not restart_backoff.can_restart(strategy, record, event.at):
        text = f"recovery is suppressed by {describe_strategy(strategy)}: {failure.summary}"
        return go_to_failing(state, event, failure, Reason(ReasonCode.RESTARTS_EXHAUSTED, text))
    backoff = restart_backoff.backoff(strategy, record, event.at)
    target = _restarting(state, event, plan, in_place=not kill, failure=failure, backoff=backoff)
    commands = kill_driver(state, event) if kill else ()
    reason = Reason(_failure_code(event), f"{failure.summary}; restarting in {backoff.total_seconds():g} s")
    return _enter(_counted(state), event, target, reason, commands=commands)


def _failure_code(event: Event) -> ReasonCode:
    match event:
        case DriverEnded():
            return ReasonCode.DRIVER_ENDED
        case DriverHeartbeatTimedOut():
            return ReasonCode.DRIVER_HEARTBEAT_TIMED_OUT
        case TimerFired():
            return ReasonCode.DEPLOY_TIMEOUT
        case _:
            return ReasonCode.QUERY_FAILED


def can_recover(state: SchedulerState, failure: Failure) -> bool:
    """Return whether the options allow a restart after this failure."""
    options = state.options
    return is_recoverable(
        failure, options.non_recoverable_failures, options.recoverable_failures, has_run=state.has_run
    )


def _restarting(
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


def _counted(state: SchedulerState, rescales: int = 0) -> SchedulerState:
    return replace(state, num_restarts=state.num_restarts + 1, num_rescales=state.num_rescales + rescales)


# ---- towards the end ------------------------------------------------------------------------------------------------


def go_to_stop_with_savepoint(state: SchedulerState, event: Event, plan: Plan) -> Step:
    """Enter StopWithSavepoint."""
    deadline = event.at + state.options.stop_timeout
    target = StopWithSavepoint(since=event.at, plan=plan, stop_deadline=deadline)
    return _enter(
        state,
        event,
        target,
        Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested: the queries stop at a batch boundary"),
    )


def go_to_canceling(state: SchedulerState, event: Event) -> Step:
    """Enter Canceling, or Finished if the driver runs no query."""
    reason = Reason(ReasonCode.CANCEL_REQUESTED, "canceled as requested")
    if not runs_queries(state):
        return go_to_finished(state, event, Outcome.CANCELED, reason)
    deadline = event.at + state.options.stop_timeout
    return _enter(state, event, Canceling(since=event.at, stop_deadline=deadline), reason)


def go_to_failing(state: SchedulerState, event: Event, cause: Failure, reason: Reason) -> Step:
    """Enter Failing, or Finished if the driver runs no query."""
    if not runs_queries(state):
        return go_to_finished(state, event, Outcome.FAILED, reason, cause)
    deadline = event.at + state.options.stop_timeout
    return _enter(state, event, Failing(since=event.at, stop_deadline=deadline, cause=cause), reason)


def go_to_finished(
    state: SchedulerState, event: Event, outcome: Outcome, reason: Reason, cause: Failure | None = None
) -> Step:
    """Enter Finished, and kill a driver that still runs, unless the driver ends by itself."""
    deadline = event.at + state.options.stop_timeout
    target = Finished(since=event.at, outcome=outcome, cause=cause, stop_deadline=deadline)
    commands = () if outcome is Outcome.FINISHED else kill_driver(state, event)
    return _enter(state, event, target, reason, commands=commands)


def runs_queries(state: SchedulerState) -> bool:
    """Return whether the driver may run queries, which need a graceful stop."""
    return state.driver is not None and state.driver.running


# ---- inside ---------------------------------------------------------------------------------------------------------


def _enter(
    state: SchedulerState,
    event: Event,
    target: Current,
    reason: Reason,
    *,
    tier: Tier | None = None,
    commands: tuple[Command, ...] = (),
) -> Step:
    entered = replace(state, current=target, version=state.version + 1)
    transition = Transition(
        at=event.at,
        source=state.name,
        target=entered.name,
        version=entered.version,
        before=_parallelism(state.plan),
        after=_parallelism(entered.plan),
        tier=tier,
        reason_code=reason.code,
        reason=reason.text,
    )
    return Step(state=entered, commands=commands, transition=transition, decision=_decision(state, event, reason))


def _decision(state: SchedulerState, event: Event, reason: Reason) -> Decision:
    return Decision(at=event.at, state=state.name, reason_code=reason.code, reason=reason.text)


def _parallelism(plan: Plan | None) -> Parallelism | None:
    return None if plan is None else plan.parallelism
