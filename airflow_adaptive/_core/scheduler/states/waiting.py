"""States of a job that waits for a start: Created, WaitingForResources and Restarting.

The job starts with all desired slots, or with sufficient slots after the stabilization timeout. A restart first waits for the stop of the driver and
for the backoff.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks, state_transitions, steps
from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    JobCompleted,
    JobRedeployed,
    QueryFailed,
    RequirementsChanged,
    SchedulingStarted,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase, ResourceLevel, TransitionManager
from airflow_adaptive._core.scheduler.state import (
    Created,
    Outcome,
    Restarting,
    SchedulerState,
    Timer,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

# ---- Created --------------------------------------------------------------------------------------------------------


def on_event_created(state: SchedulerState, _: Created, event: Event) -> Step:
    """Start to schedule the job, or end the job."""
    match event:
        case SchedulingStarted():
            return state_transitions.go_to_waiting_for_resources(
                state, event, Reason(ReasonCode.SCHEDULING_STARTED, "scheduling started")
            )
        case CancelRequested():
            return state_transitions.go_to_canceling(state, event)
        case SuspendRequested():
            return state_transitions.go_to_finished(
                state, event, Outcome.SUSPENDED, Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested")
            )
        case QueryFailed(failure=failure):
            return state_transitions.go_to_finished(
                state, event, Outcome.FAILED, Reason(ReasonCode.QUERY_FAILED, failure.summary), failure
            )
        case _:
            return steps.ignore(state, event)


def timers_created(_state: SchedulerState, _: Created) -> tuple[Timer, ...]:
    """Return no timer: this state has no deadline."""
    return ()


# ---- WaitingForResources --------------------------------------------------------------------------------------------


FIX = "add workers, or declare lower bounds or smaller executors"


def on_event_waiting(state: SchedulerState, waiting: WaitingForResources, event: Event) -> Step:
    """Pass changes and timers_waiting to the transition manager, and deploy the job when the manager has decided."""
    resources = resource_checks.waiting_resources(state, waiting.target_parallelism)
    match event:
        case SlotsChanged() | RequirementsChanged():
            return _follow(state, event, waiting.manager.change(event.at, resources))
        case TimerFired(timer=TimerName.RESOURCE_WAIT):
            return _try_anyway(state, event)
        case TimerFired():
            return _follow(state, event, waiting.manager.advance(event.at, resources))
        case CancelRequested():
            return state_transitions.go_to_canceling(state, event)
        case SuspendRequested():
            return state_transitions.go_to_finished(
                state, event, Outcome.SUSPENDED, Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested")
            )
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries ended before they could be stopped")
            return state_transitions.go_to_finished(state, event, Outcome.FINISHED, reason)
        case QueryFailed(failure=failure):
            return state_transitions.go_to_finished(
                state, event, Outcome.FAILED, Reason(ReasonCode.QUERY_FAILED, failure.summary), failure
            )
        case _:
            return steps.ignore(state, event)


def timers_waiting(state: SchedulerState, waiting: WaitingForResources) -> Iterator[Timer]:
    """Return the deadline of the manager, and the end of `resource_wait_timeout` for a job that has never run."""
    timeout = state.options.resource_wait_timeout
    if waiting.manager.due is not None:
        yield Timer(name=TimerName.TRANSITION, due=waiting.manager.due)
    if waiting.gives_up and timeout is not None:
        yield Timer(name=TimerName.RESOURCE_WAIT, due=waiting.since + timeout)


def _follow(state: SchedulerState, event: Event, manager: TransitionManager) -> Step:
    possible = resource_checks.possible_parallelism(state)
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        reason = Reason(ReasonCode.SLOTS_AVAILABLE, f"{state.available_slots} slot(s) are available")
        return state_transitions.go_to_deploying(state, event, possible, reason)
    code = ReasonCode.BELOW_LOWER_BOUND if possible is None else ReasonCode.STABILIZATION
    until = "" if possible is None else "; the job waits until the number of slots is stable"
    reason = Reason(code, f"waiting: {resource_checks.describe_shortage(state)}{until}")
    return steps.stay(steps.with_current(state, manager=manager), event, reason)


def _try_anyway(state: SchedulerState, event: TimerFired) -> Step:
    possible = resource_checks.possible_parallelism(state)
    if possible is not None:
        text = f"resource_wait_timeout has passed, and {state.available_slots} slot(s) are available"
        return state_transitions.go_to_deploying(state, event, possible, Reason(ReasonCode.RESOURCE_WAIT_TIMEOUT, text))
    failure = Failure(
        error_class=FailureCode.NOT_ENOUGH_RESOURCES,
        message=f"not enough resources: {resource_checks.describe_shortage(state)}: {event.explanation or FIX}",
    )
    reason = Reason(ReasonCode.RESOURCE_WAIT_TIMEOUT, failure.message)
    return state_transitions.go_to_finished(state, event, Outcome.FAILED, reason, failure)


# ---- Restarting -----------------------------------------------------------------------------------------------------


def on_event_restarting(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """React to an event; further failures do not change the restart."""
    match event:
        case DriverEnded():
            return _without_driver(state, restarting, event)
        case JobRedeployed() if restarting.in_place and restarting.failure and rescale_tiers.is_outdated(state):
            text = "redeployed: a driver of the new deployment starts, because the old one has not worked"
            return steps.stay(_with_stop(state, event), event, Reason(ReasonCode.JOB_REDEPLOYED, text))
        case DriverHeartbeatTimedOut() if restarting.in_place or restarting.is_move:
            return _kill_silent_driver(state, event)
        case TimerFired(timer=TimerName.STOP):
            return state_transitions.kill_again(state, event, killed=True)
        case TimerFired():
            return _go_on(state, restarting, event)
        case JobRedeployed() if restarting.is_move:  # The new code may be the remedy for a batch that does not end.
            deadline = event.at + state.options.stop_timeout
            return steps.stay(steps.with_current(state, stop_deadline=deadline, is_move=False), event)
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries have ended")
            return state_transitions.go_to_finished(state, event, Outcome.FINISHED, reason)
        case CancelRequested():
            return state_transitions.go_to_canceling(state, event)
        case SuspendRequested():
            return _suspend(state, restarting, event)
        case _:
            return steps.ignore(state, event)


def timers_restarting(_: SchedulerState, restarting: Restarting) -> tuple[Timer, ...]:
    """Return the end of the backoff; until the driver has stopped, the time when the driver is killed, unless it moves."""
    if restarting.stopped_at is None:
        return () if restarting.is_move else (Timer(name=TimerName.STOP, due=restarting.stop_deadline),)
    return (Timer(name=TimerName.BACKOFF, due=restarting.stopped_at + restarting.backoff),)


def _suspend(state: SchedulerState, restarting: Restarting, event: SuspendRequested) -> Step:
    """Suspend the job at once, or at the end of the batch of a driver that leaves its machine."""
    if restarting.is_move:
        return state_transitions.go_to_stop_with_savepoint(state, event, restarting.plan)
    reason = Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested; the job was not running")
    return state_transitions.go_to_finished(state, event, Outcome.SUSPENDED, reason)


def _without_driver(state: SchedulerState, restarting: Restarting, event: DriverEnded) -> Step:
    """Wait for the backoff only. A driver that was to stop, and ended in another way, has failed, which does not change the restart."""
    is_expected = event.in_order or restarting.killed or restarting.failure is not None
    lost = None if is_expected else event.failure
    stopped_at = restarting.stopped_at or event.at
    stopped = steps.with_current(
        state, in_place=False, previous_plan=None, stopped_at=stopped_at, lost=lost, is_move=False
    )
    text = "the driver has ended" if lost is None else f"the driver ended before it had stopped: {lost.summary}"
    return steps.stay(stopped, event, Reason(ReasonCode.DRIVER_ENDED, text))


def _with_stop(state: SchedulerState, event: Event, *, killed: bool = False) -> SchedulerState:
    """Return the state in which the driver has to stop before the restart."""
    deadline = event.at + state.options.stop_timeout
    return steps.with_current(
        state, in_place=False, previous_plan=None, stopped_at=None, stop_deadline=deadline, killed=killed, is_move=False
    )


def _kill_silent_driver(state: SchedulerState, event: DriverHeartbeatTimedOut) -> Step:
    reason = Reason(
        ReasonCode.DRIVER_HEARTBEAT_TIMED_OUT, "the heartbeat of the driver timed out: the driver is killed"
    )
    step = steps.stay(_with_stop(state, event, killed=True), event, reason)
    return replace(step, commands=state_transitions.kill_driver(state, event))


def _go_on(state: SchedulerState, restarting: Restarting, event: Event) -> Step:
    """Deploy the target of a rescale (FLINK-40379); after a failure, deploy only with all desired slots, else wait.

    After the first failure of a job that works, the slots that it had are enough: a wait for more would only prolong the downtime.
    The plan that still runs stays active if a redeployment no longer allows the tier of the rescale.
    """
    running, highest = restarting.previous_plan, state.options.highest_rescale_tier
    if running is not None and highest < Tier.QUERY:
        text = f"the rescale restarts queries, but highest_rescale_tier is {highest.value}: the job keeps its plan"
        return state_transitions.go_to_executing(state, event, running, Reason(ReasonCode.TIER_NOT_ALLOWED, text))
    target_parallelism, possible = restarting.target_parallelism, resource_checks.possible_parallelism(state)
    if target_parallelism is not None and resource_checks.is_startable(state, target_parallelism):
        reason = _with_lost_driver(restarting, ReasonCode.SLOTS_AVAILABLE, "the slots of the rescale are available")
        return state_transitions.go_to_deploying(state, event, target_parallelism, reason, restarting.previous_plan)
    is_recovery = restarting.failure is not None and state_transitions.is_first_failure(state)
    before = restarting.plan.parallelism if is_recovery else None
    if possible is not None and resource_checks.waiting_resources(state, before) is ResourceLevel.DESIRED:
        is_desired = resource_checks.waiting_resources(state) is ResourceLevel.DESIRED
        text = "all desired slots are available" if is_desired else "as many slots as before are available"
        reason = _with_lost_driver(restarting, ReasonCode.SLOTS_AVAILABLE, text)
        return state_transitions.go_to_deploying(state, event, possible, reason, restarting.previous_plan)
    reason = _with_lost_driver(restarting, ReasonCode.SLOTS_PENDING, "the restart waits for resources")
    return state_transitions.go_to_waiting_for_resources(state, event, reason, before or target_parallelism)


def _with_lost_driver(restarting: Restarting, code: ReasonCode, text: str) -> Reason:
    """Return the reason to go on, with the failure of a driver that ended by itself: its slots are not lacking, but lost with it."""
    return Reason(code, text if restarting.lost is None else f"{text}; the driver was lost: {restarting.lost.summary}")
