"""Canceling, Failing and Finished: wait for the end of the driver."""

from __future__ import annotations

from typing import assert_never

from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    DriverEnded,
    Event,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.state import Canceling, Failing, Finished, Outcome, SchedulerState, Timer
from airflow_adaptive._core.scheduler.state_transitions import steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(state: SchedulerState, current: Canceling | Failing | Finished, event: Event) -> Step:
    """React to the end of the driver and to a request to cancel; ignore failures."""
    match event:
        case DriverEnded():
            return _driver_gone(state, current, event)
        case TimerFired():
            return stop.kill_again(state, event)
        case CancelRequested() if isinstance(current, Failing):
            return stop.go_to_canceling(state, event)
        case _:
            return steps.ignore(state, event)


def timers(state: SchedulerState, current: Canceling | Failing | Finished) -> tuple[Timer, ...]:
    """Return the time when a driver that has not stopped is killed."""
    return () if state.driver is None else (Timer(name=TimerName.STOP, due=current.stop_deadline),)


def _driver_gone(state: SchedulerState, current: Canceling | Failing | Finished, event: DriverEnded) -> Step:
    match current:
        case Canceling():
            reason = Reason(ReasonCode.DRIVER_ENDED, "canceled: the driver has ended")
            return stop.go_to_finished(state, event, Outcome.CANCELED, reason)
        case Failing(cause=cause):
            reason = Reason(ReasonCode.DRIVER_ENDED, f"failed: {cause.summary}")
            return stop.go_to_finished(state, event, Outcome.FAILED, reason, cause)
        case Finished():
            return steps.stay(state, event, Reason(ReasonCode.DRIVER_ENDED, "the driver has ended"))
        case _:
            assert_never(current)
