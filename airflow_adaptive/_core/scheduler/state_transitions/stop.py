"""State transitions to the end of a job: StopWithSavepoint, Canceling, Failing and Finished; and the kill of the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_adaptive._core.scheduler.commands import Command, KillDriver
from airflow_adaptive._core.scheduler.events import Event
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Failing,
    Finished,
    Outcome,
    Plan,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._core.scheduler.state_transitions import steps
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


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
    driver = state.driver
    if driver is None:
        return ()
    return (KillDriver(epoch=driver.epoch, submission_id=driver.submission_id, cause=type(event).__name__),)
