"""Restarting: wait for the stop of the driver and for the backoff, then deploy or wait for resources."""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler import resource_checks
from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    JobCompleted,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import Resources
from airflow_adaptive._core.scheduler.state import Outcome, Restarting, SchedulerState, Timer
from airflow_adaptive._core.scheduler.state_transitions import start, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """React to an event; further failures do not change the restart."""
    match event:
        case DriverEnded():
            return _driver_gone(state, restarting, event)
        case DriverHeartbeatTimedOut() if restarting.in_place:
            return _kill_silent_driver(state, event)
        case TimerFired(timer=TimerName.STOP):
            return stop.kill_again(state, event, killed=True)
        case TimerFired():
            return _go_on(state, restarting, event)
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries have ended")
            return stop.go_to_finished(state, event, Outcome.FINISHED, reason)
        case CancelRequested():
            return stop.go_to_canceling(state, event)
        case SuspendRequested():
            reason = Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested; the job was not running")
            return stop.go_to_finished(state, event, Outcome.SUSPENDED, reason)
        case _:
            return steps.ignore(state, event)


def timers(_: SchedulerState, restarting: Restarting) -> tuple[Timer, ...]:
    """Return the end of the backoff; until the driver has stopped, the time when the driver is killed."""
    if restarting.stopped_at is None:
        return (Timer(name=TimerName.STOP, due=restarting.stop_deadline),)
    return (Timer(name=TimerName.BACKOFF, due=restarting.stopped_at + restarting.backoff),)


def _driver_gone(state: SchedulerState, restarting: Restarting, event: DriverEnded) -> Step:
    """Wait for the backoff only. A driver that was to stop, and ended in another way, has failed, which does not change the restart."""
    is_expected = event.in_order or restarting.killed or restarting.failure is not None
    lost = None if is_expected else event.failure
    stopped_at = restarting.stopped_at or event.at
    stopped = steps.with_current(state, in_place=False, previous_plan=None, stopped_at=stopped_at, lost=lost)
    text = "the driver has ended" if lost is None else f"the driver ended before it had stopped: {lost.summary}"
    return steps.stay(stopped, event, Reason(ReasonCode.DRIVER_ENDED, text))


def _kill_silent_driver(state: SchedulerState, event: DriverHeartbeatTimedOut) -> Step:
    deadline = event.at + state.options.stop_timeout
    stopping = steps.with_current(
        state, in_place=False, previous_plan=None, stopped_at=None, stop_deadline=deadline, killed=True
    )
    reason = Reason(
        ReasonCode.DRIVER_HEARTBEAT_TIMED_OUT, "the heartbeat of the driver timed out: the driver is killed"
    )
    step = steps.stay(stopping, event, reason)
    return replace(step, commands=stop.kill_driver(state, event))


def _go_on(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """Deploy the target of a rescale (FLINK-40379); after a failure, deploy only with all desired slots, else wait.

    The plan that still runs stays active if a redeployment no longer allows the tier of the rescale.
    """
    running, highest = restarting.previous_plan, state.options.highest_rescale_tier
    if running is not None and highest < Tier.QUERY:
        text = f"the rescale restarts queries, but highest_rescale_tier is {highest.value}: the job keeps its plan"
        return start.go_to_executing(state, event, running, Reason(ReasonCode.TIER_NOT_ALLOWED, text))
    target_parallelism, possible = restarting.target_parallelism, resource_checks.possible_parallelism(state)
    if target_parallelism is not None and resource_checks.is_startable(state, target_parallelism):
        reason = _reason(restarting, ReasonCode.SLOTS_AVAILABLE, "the slots of the rescale are available")
        return start.go_to_deploying(state, event, target_parallelism, reason, restarting.previous_plan)
    if possible is not None and resource_checks.waiting_resources(state) is Resources.DESIRED:
        reason = _reason(restarting, ReasonCode.SLOTS_AVAILABLE, "all desired slots are available")
        return start.go_to_deploying(state, event, possible, reason, restarting.previous_plan)
    reason = _reason(restarting, ReasonCode.SLOTS_PENDING, "the restart waits for resources")
    return start.go_to_waiting_for_resources(state, event, reason, target_parallelism)


def _reason(restarting: Restarting, code: ReasonCode, text: str) -> Reason:
    """Return the reason to go on, with the failure of a driver that ended by itself: its slots are not lacking, but lost with it."""
    return Reason(code, text if restarting.lost is None else f"{text}; the driver was lost: {restarting.lost.summary}")
