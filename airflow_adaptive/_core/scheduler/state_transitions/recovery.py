"""State transitions after a failure: Restarting with the backoff of the restart strategy, or the end of the job."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler.config.restart_strategies import describe_strategy
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
from airflow_adaptive._core.scheduler.policies.jitter import jitter
from airflow_adaptive._core.scheduler.policies.known_causes import is_known_by_text, with_remedy
from airflow_adaptive._core.scheduler.state import Plan, SchedulerState
from airflow_adaptive._core.scheduler.state_transitions import restart, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def handle_failure(state: SchedulerState, event: Event, plan: Plan, failure: Failure, *, kill: bool = False) -> Step:
    """Enter Restarting with the backoff of the restart strategy, or fail the job.

    The restart strategy counts recoverable failures only. Before the first batch of a deployment, the number of equal failures is
    limited, too. A driver that ended because it could not stop a batch is replaced at once, and is not counted. A driver that has committed
    batches and then fails twice in the same way is replaced, because it may contain the cause, such as cached metadata of a table that was
    replaced. A new driver that fails in this way remains until it has committed a batch.

    Args:
        state: state whose driver is None if the driver has ended.
        event: event that reported the failure.
        plan: plan that ran, or that was being deployed.
        failure: the failure.
        kill: whether to kill the driver, because it may no longer respond.
    """
    if is_unended_batch(failure):
        target = restart.restarting(state, event, plan, in_place=False)
        return steps.enter(state, event, target, Reason(ReasonCode.STOP_TIMEOUT, failure.message))
    if not can_recover(state, failure):
        final = with_remedy(failure)
        text = f"the failure is not recoverable: {final.summary}"
        return stop.go_to_failing(state, event, final, Reason(ReasonCode.NOT_RECOVERABLE, text))
    state = _with_repetition(state, event, failure)
    repetitions = state.proved.repetitions(failure, event.at)
    if repetitions >= state.options.max_failures_before_first_batch:
        final = gave_up(with_remedy(failure), repetitions)
        return stop.go_to_failing(state, event, final, Reason(ReasonCode.NO_FIRST_BATCH, final.summary))
    strategy = state.options.restart_strategy
    chance = jitter(state.job.job, state.epoch, state.restarts.attempts)
    record = restart_backoff.notify(strategy, state.restarts, event.at, chance)
    state = replace(state, restarts=record)
    if not restart_backoff.can_restart(strategy, record, event.at):
        text = f"recovery is suppressed by {describe_strategy(strategy)}: {failure.summary}"
        return stop.go_to_failing(state, event, failure, Reason(ReasonCode.RESTARTS_EXHAUSTED, text))
    backoff = restart_backoff.backoff(strategy, record, event.at)
    is_replaced = _may_contain_cause(state, failure)
    state, in_place = _with_failure_of_driver(state, failure), not (kill or is_replaced)
    target = restart.restarting(state, event, plan, in_place=in_place, failure=failure, backoff=backoff)
    commands = stop.kill_driver(state, event) if kill else ()
    where = " in a new driver, because the driver may contain the cause" if is_replaced else ""
    reason = Reason(_failure_code(event), f"{failure.summary}; restarting in {backoff.total_seconds():g} s{where}")
    return steps.enter(restart.counted(state), event, target, reason, commands=commands)


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
    return (
        driver is not None and driver.has_committed and (is_stale_table(failure) or driver.failure == key_of(failure))
    )


def _with_failure_of_driver(state: SchedulerState, failure: Failure) -> SchedulerState:
    """Return the state with the failure in the record of the driver, if the driver has committed a batch, and may contain the cause."""
    driver = state.driver
    if driver is None or not driver.has_committed or is_outage(failure):
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
        was_accepted=state.was_accepted
        or state.has_run,  # a snapshot of an earlier release knows only that the job has run
        has_run=state.has_run,
    )
