"""State transitions that the handlers of the states share.

Every handler in `states` returns the `Step` that one of these functions builds, so that each transition is built once. A function has the
name of the state that it enters (`go_to_<state>`), or of the reason to leave the plan: `rescale`, `plan_again`, `stop_and_wait`, `move` and
`handle_failure` enter Restarting, and a rescale of executors enters Deploying.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks, steps
from airflow_adaptive._core.scheduler.allocator import used_slots
from airflow_adaptive._core.scheduler.config.parsing import describe_strategy
from airflow_adaptive._core.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, Event, TimerFired
from airflow_adaptive._core.scheduler.policies import restart_backoff
from airflow_adaptive._core.scheduler.policies.failure_handling import (
    Failure,
    is_outage,
    is_recoverable,
    is_stale_table,
    is_unended_batch,
    matches,
)
from airflow_adaptive._core.scheduler.policies.first_batch import gave_up, key_of
from airflow_adaptive._core.scheduler.policies.known_causes import is_known_by_text, with_remedy
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.restart_backoff import jitter
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME, ResourceLevel, TransitionManager
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.state import (
    Canceling,
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
from airflow_adaptive._core.scheduler.steps import Command, KillDriver, Step, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

# ---- a running job: WaitingForResources, Deploying, Executing and RestartingLocally ---------------------------------


def go_to_waiting_for_resources(
    state: SchedulerState, event: Event, reason: Reason, target_parallelism: Parallelism | None = None
) -> Step:
    """Enter WaitingForResources. Slots that are available already count as a change at this moment."""
    manager = TransitionManager.begin(
        event.at,
        stabilization=state.options.resource_stabilization_timeout,
        changed=resource_checks.waiting_resources(state, target_parallelism) >= ResourceLevel.SUFFICIENT,
    )
    waiting = WaitingForResources(
        since=event.at, manager=manager, gives_up=not state.has_run, target_parallelism=target_parallelism
    )
    return steps.enter(state, event, waiting, reason)


def go_to_deploying(
    state: SchedulerState, event: Event, parallelism: Parallelism, reason: Reason, previous_plan: Plan | None = None
) -> Step:
    """Enter Deploying: on the running driver, on the prepared one that replaces it, or on a new driver with a new epoch.

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
    commands: tuple[Command, ...] = ()
    driver, standby = state.replacement, replace(state.standby, driver=None, is_prepared=False, failures=0)
    if driver is not None:
        driver = replace(driver, took_over=True)
    else:
        driver, standby = Driver(epoch=state.last_epoch + 1, deployment=state.next_deployment), state.standby
        cause = type(event).__name__
        commands = (SubmitDriver(epoch=driver.epoch, slots=plan.slots, cause=cause, deployment=driver.deployment),)
    # What was known about the preparation of a deployment does not hold for the next time that it is deployed.
    standby = replace(standby, settled="" if driver.deployment == state.deployment else standby.settled)
    proved = state.proved.started(driver.deployment)
    started = replace(state, epoch=driver.epoch, driver=driver, standby=standby, standby_offer=None, proved=proved)
    deploying = Deploying(since=event.at, plan=plan)
    return steps.enter(started, event, deploying, reason, tier=Tier.DRIVER, commands=commands)


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
    state = replace(state, driver=running, was_accepted=True, has_run=True)
    manager = TransitionManager.begin(
        now,
        cooldown=options.scaling_interval_min,
        stabilization=options.executing_stabilization_timeout,
        max_trigger_delay=resource_checks.max_trigger_delay(state),
        extension=options.cooldown_extension,
        limit=options.scaling_interval_max,
        changed=resource_checks.executing_resources(state, plan) >= ResourceLevel.SUFFICIENT,
    )
    forced_at = resource_checks.forced_rescale_at(state, plan, since=now, planned=None, now=now)
    executing = Executing(since=now, plan=plan, manager=manager, forced_at=forced_at)
    return steps.enter(state, event, executing, reason, tier=tier)


def go_to_restarting_locally(state: SchedulerState, event: Event, plan: Plan, reason: Reason) -> Step:
    """Enter RestartingLocally."""
    return steps.enter(state, event, RestartingLocally(since=event.at, plan=plan), reason, tier=Tier.EXECUTORS)


# ---- another plan: the rescale tiers, and the restart of a job whose slots do not suffice ---------------------------


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
    return go_to_executing(
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


def move(state: SchedulerState, event: Event, plan: Plan, why: str) -> Step:
    """Enter Restarting without a backoff, because the driver leaves its machine: the same parallelism starts elsewhere, if slots suffice."""
    where = "a new driver starts" if state.replacement is None else "the prepared driver takes over"
    stops = restarting(state, event, plan, in_place=False, target_parallelism=plan.parallelism)
    target = replace(stops, is_move=state.driver is not None)
    return steps.enter(
        counted(state), event, target, Reason(ReasonCode.DRIVER_MOVED, f"{why}: {where}"), tier=Tier.DRIVER
    )


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


# ---- the end of a job: StopWithSavepoint, Canceling, Failing and Finished -------------------------------------------


def go_to_stop_with_savepoint(state: SchedulerState, event: Event, plan: Plan) -> Step:
    """Enter StopWithSavepoint."""
    deadline = event.at + state.options.stop_timeout
    target = StopWithSavepoint(since=event.at, plan=plan, stop_deadline=deadline)
    return steps.enter(
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
    return steps.enter(state, event, Canceling(since=event.at, stop_deadline=deadline), reason)


def go_to_failing(state: SchedulerState, event: Event, cause: Failure, reason: Reason) -> Step:
    """Enter Failing, or Finished if the driver runs no query."""
    if not runs_queries(state):
        return go_to_finished(state, event, Outcome.FAILED, reason, cause)
    deadline = event.at + state.options.stop_timeout
    return steps.enter(state, event, Failing(since=event.at, stop_deadline=deadline, cause=cause), reason)


def go_to_finished(
    state: SchedulerState, event: Event, outcome: Outcome, reason: Reason, cause: Failure | None = None
) -> Step:
    """Enter Finished, and kill a driver that still runs, unless the driver ends by itself."""
    deadline = event.at + state.options.stop_timeout
    target = Finished(since=event.at, outcome=outcome, cause=cause, stop_deadline=deadline)
    commands = () if outcome is Outcome.FINISHED else kill_driver(state, event)
    return steps.enter(state, event, target, reason, commands=commands)


def runs_queries(state: SchedulerState) -> bool:
    """Return whether the driver may run queries, which need a graceful stop."""
    return state.driver is not None and state.driver.running


def kill_again(state: SchedulerState, event: Event, **changes: Any) -> Step:
    """Kill a driver that has not stopped within `stop_timeout`, and start the timeout again."""
    deadline = event.at + state.options.stop_timeout
    killed = steps.with_current(state, stop_deadline=deadline, **changes)
    step = steps.stay(killed, event, Reason(ReasonCode.STOP_TIMEOUT, "the driver did not stop in time, and is killed"))
    return replace(step, commands=kill_driver(state, event))


def kill_driver(state: SchedulerState, event: Event) -> tuple[Command, ...]:
    """Return the command that kills the driver, if the state has a driver."""
    return () if state.driver is None else (kill(state.driver, event),)


def kill(driver: Driver, event: Event) -> KillDriver:
    """Return the command that kills a driver."""
    return KillDriver(epoch=driver.epoch, submission_id=driver.submission_id, cause=type(event).__name__)


# ---- after a failure: Restarting with the backoff of the restart strategy, or the end of the job --------------------


def handle_failure(state: SchedulerState, event: Event, plan: Plan, failure: Failure, *, kill: bool = False) -> Step:
    """Enter Restarting with the backoff of the restart strategy, or fail the job.

    The restart strategy counts recoverable failures only. Before the first batch of a deployment, the number of equal failures is
    limited, too. A driver that ended because it could not stop a batch is replaced at once, and is not counted. A driver that has completed
    triggers and then fails twice in the same way is replaced, because it may contain the cause, such as cached metadata of a table that was
    replaced. A new driver that fails in this way remains until it has completed a trigger.

    Args:
        state: state whose driver is None if the driver has ended.
        event: event that reported the failure.
        plan: plan that ran, or that was being deployed.
        failure: the failure.
        kill: whether to kill the driver, because it may no longer respond.
    """
    if is_unended_batch(failure):
        target = restarting(state, event, plan, in_place=False)
        return steps.enter(state, event, target, Reason(ReasonCode.STOP_TIMEOUT, failure.message))
    if not can_recover(state, failure):
        final = with_remedy(failure)
        text = f"the failure is not recoverable: {final.summary}"
        return go_to_failing(state, event, final, Reason(ReasonCode.NOT_RECOVERABLE, text))
    state = _with_repetition(state, event, failure)
    repetitions = state.proved.repetitions(failure, event.at)
    if repetitions >= state.options.max_failures_before_first_batch:
        final = gave_up(with_remedy(failure), repetitions)
        return go_to_failing(state, event, final, Reason(ReasonCode.NO_FIRST_BATCH, final.summary))
    strategy = state.options.restart_strategy
    chance = jitter(state.job.job, state.epoch, state.restarts.attempts)
    record = restart_backoff.notify(strategy, state.restarts, event.at, chance)
    state = replace(state, restarts=record)
    if not restart_backoff.can_restart(strategy, record, event.at):
        text = f"recovery is suppressed by {describe_strategy(strategy)}: {failure.summary}"
        return go_to_failing(state, event, failure, Reason(ReasonCode.RESTARTS_EXHAUSTED, text))
    # A prepared driver costs nothing to try once. If that did not help, the backoff protects what the job uses.
    is_outdated = rescale_tiers.is_outdated(state)
    is_replaced = is_outdated or _may_contain_cause(state, failure)
    is_gone = state.driver is None or kill or is_replaced
    takes_over = is_gone and is_first_failure(state) and state.replacement is not None
    backoff = NO_TIME if takes_over else restart_backoff.backoff(strategy, record, event.at)
    state, in_place = _with_failure_of_driver(state, failure), not (kill or is_replaced)
    target = restarting(state, event, plan, in_place=in_place, failure=failure, backoff=backoff)
    commands = kill_driver(state, event) if kill else ()
    why = "of the new deployment" if is_outdated else "because the driver may contain the cause"
    where = f" in a new driver, {why}" if is_replaced else ""
    reason = Reason(_failure_code(event), f"{failure.summary}; restarting in {backoff.total_seconds():g} s{where}")
    return steps.enter(counted(state), event, target, reason, commands=commands)


def is_first_failure(state: SchedulerState) -> bool:
    """Return whether the newest failure is the first one of a deployment that has committed batches."""
    return restart_backoff.is_first(state.restarts) and state.proved.has_committed


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


def _with_repetition(state: SchedulerState, event: Event, failure: Failure) -> SchedulerState:
    """Return the state with the failure in the record of the deployment, unless the user has declared that a restart helps."""
    if matches(failure, state.options.recoverable_failures):
        return state
    return replace(state, proved=state.proved.failed(failure, event.at))


def _may_contain_cause(state: SchedulerState, failure: Failure) -> bool:
    """Return whether to replace the driver, because it has worked before, and a restart in it has not helped or cannot help."""
    driver = state.driver
    return driver is not None and driver.has_worked and (is_stale_table(failure) or driver.failure == key_of(failure))


def _with_failure_of_driver(state: SchedulerState, failure: Failure) -> SchedulerState:
    """Return the state with the failure in the record of the driver, if the driver has worked, and may contain the cause."""
    driver = state.driver
    if driver is None or not driver.has_worked or is_outage(failure):
        return state
    return replace(state, driver=replace(driver, failure=key_of(failure)))


def can_recover(state: SchedulerState, failure: Failure) -> bool:
    """Return whether the options allow a restart after this failure."""
    options = state.options
    if is_known_by_text(failure) and not matches(failure, options.recoverable_failures):
        return False
    return is_recoverable(
        failure,
        options.non_recoverable_failures,
        options.recoverable_failures,
        was_accepted=state.was_accepted,
        has_run=state.has_run,
    )
