"""WaitingForResources: start with all desired slots, or with sufficient slots after the stabilization timeout."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import resource_checks
from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    Event,
    JobCompleted,
    QueryFailed,
    RequirementsChanged,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase, TransitionManager
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState, Timer, WaitingForResources
from airflow_adaptive._core.scheduler.state_transitions import start, steps, stop
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

FIX = "add workers, or declare lower bounds or smaller executors"


def on_event(state: SchedulerState, waiting: WaitingForResources, event: Event) -> Step:
    """Pass changes and timers to the transition manager, and deploy the job when the manager has decided."""
    resources = resource_checks.waiting_resources(state, waiting.target_parallelism)
    match event:
        case SlotsChanged() | RequirementsChanged():
            return _follow(state, event, waiting.manager.change(event.at, resources))
        case TimerFired(timer=TimerName.RESOURCE_WAIT):
            return _try_anyway(state, event)
        case TimerFired():
            return _follow(state, event, waiting.manager.advance(event.at, resources))
        case CancelRequested():
            return stop.go_to_canceling(state, event)
        case SuspendRequested():
            return stop.go_to_finished(
                state, event, Outcome.SUSPENDED, Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested")
            )
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries ended before they could be stopped")
            return stop.go_to_finished(state, event, Outcome.FINISHED, reason)
        case QueryFailed(failure=failure):
            return stop.go_to_finished(
                state, event, Outcome.FAILED, Reason(ReasonCode.QUERY_FAILED, failure.summary), failure
            )
        case _:
            return steps.ignore(state, event)


def timers(state: SchedulerState, waiting: WaitingForResources) -> Iterator[Timer]:
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
        return start.go_to_deploying(state, event, possible, reason)
    code = ReasonCode.BELOW_LOWER_BOUND if possible is None else ReasonCode.STABILIZATION
    reason = Reason(code, f"waiting: {resource_checks.describe_shortage(state)}; {manager.phase}")
    return steps.stay(steps.with_current(state, manager=manager), event, reason)


def _try_anyway(state: SchedulerState, event: TimerFired) -> Step:
    possible = resource_checks.possible_parallelism(state)
    if possible is not None:
        text = f"resource_wait_timeout has passed, and {state.available_slots} slot(s) are available"
        return start.go_to_deploying(state, event, possible, Reason(ReasonCode.RESOURCE_WAIT_TIMEOUT, text))
    failure = Failure(
        error_class=FailureCode.NOT_ENOUGH_RESOURCES,
        message=f"not enough resources: {resource_checks.describe_shortage(state)}: {event.explanation or FIX}",
    )
    reason = Reason(ReasonCode.RESOURCE_WAIT_TIMEOUT, failure.message)
    return stop.go_to_finished(state, event, Outcome.FAILED, reason, failure)
