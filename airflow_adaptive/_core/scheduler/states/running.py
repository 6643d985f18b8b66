"""States of a job whose queries run: Executing, RestartingLocally, and what all states with a plan have in common.

Executing follows slots, requirements, committed batches and failures. RestartingLocally lets Spark recover from lost executors, or makes a plan for the
slots that are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks, state_transitions, steps
from airflow_adaptive._core.scheduler.allocator import used_slots
from airflow_adaptive._core.scheduler.config.options import BelowLowerBound
from airflow_adaptive._core.scheduler.events import (
    BatchCommitted,
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    JobCompleted,
    JobRedeployed,
    QueryFailed,
    RequirementsChanged,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.rescaling import Tier, parallelism_changed
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME, Phase, TransitionManager
from airflow_adaptive._core.scheduler.requirements import Parallelism, is_within
from airflow_adaptive._core.scheduler.state import (
    Deploying,
    Executing,
    Outcome,
    Plan,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    Timer,
)
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

# ---- common ---------------------------------------------------------------------------------------------------------


def on_event_with_plan(
    state: SchedulerState, current: Deploying | Executing | RestartingLocally | StopWithSavepoint, event: Event
) -> Step:
    """React to failures, to the end of the input, and to requests to cancel or suspend."""
    plan = current.plan
    match event:
        case DriverEnded(failure=failure, is_move=True):
            return state_transitions.move(state, event, plan, failure.message)
        case DriverEnded(failure=failure) | QueryFailed(failure=failure):
            return state_transitions.handle_failure(state, event, plan, failure)
        case DriverHeartbeatTimedOut(failure=failure):
            return state_transitions.handle_failure(state, event, plan, failure, kill=True)
        case JobCompleted():
            reason = Reason(ReasonCode.JOB_COMPLETED, "all queries have ended")
            return state_transitions.go_to_finished(state, event, Outcome.FINISHED, reason)
        case CancelRequested():
            return state_transitions.go_to_canceling(state, event)
        case SuspendRequested() if state_transitions.runs_queries(state):
            return state_transitions.go_to_stop_with_savepoint(state, event, plan)
        case SuspendRequested():
            reason = Reason(ReasonCode.SUSPEND_REQUESTED, "suspended as requested; no query was running")
            return state_transitions.go_to_finished(state, event, Outcome.SUSPENDED, reason)
        case _:
            return steps.ignore(state, event)


# ---- Executing ------------------------------------------------------------------------------------------------------


_WAITS = {
    Phase.COOLDOWN: (ReasonCode.COOLDOWN, "waits until the end of the cooldown"),
    Phase.STABILIZING: (ReasonCode.STABILIZATION, "waits until the number of slots is stable"),
    Phase.STABILIZED: (ReasonCode.BATCH_BOUNDARY, "waits for the next committed batch"),
}
"""What a rescale waits for in each phase of the transition manager that has seen a change."""


def on_event_executing(state: SchedulerState, executing: Executing, event: Event) -> Step:
    """React to lost slots at once; the transition manager decides when to act on other changes."""
    match event:
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _lost_slots(state, executing) > 0:
            text = f"{_lost_slots(state, executing)} of {executing.plan.slots} slot(s) lost"
            return state_transitions.go_to_restarting_locally(
                state, event, executing.plan, Reason(ReasonCode.SLOTS_LOST, text)
            )
        case SlotsChanged() | RequirementsChanged() | TimerFired() if _must_stop(state):
            text = f"below the lower bound: {resource_checks.describe_shortage(state)}; the job stops and waits"
            reason = Reason(ReasonCode.BELOW_LOWER_BOUND, text)
            return state_transitions.stop_and_wait(state, event, executing.plan, reason)
        case SlotsChanged() | RequirementsChanged() | JobRedeployed():
            return _on_change(state, executing, event)
        case BatchCommitted():
            return _on_trigger(state, executing, event)
        case TimerFired(timer=TimerName.SLOT_IDLE):
            return _free_idle_slots(state, executing, event)
        case TimerFired(timer=TimerName.FORCED_RESCALE):
            return _force(state, executing, event)
        case TimerFired():
            resources = resource_checks.executing_resources(state, executing.plan)
            return _follow(state, executing, event, executing.manager.advance(event.at, resources))
        case _:
            return on_event_with_plan(state, executing, event)


def timers_executing(state: SchedulerState, executing: Executing) -> Iterator[Timer]:
    """Return the deadlines of the manager and of a forced rescale; earlier losses are due at once."""
    if _lost_slots(state, executing) > 0 or _must_stop(state):
        yield Timer(name=TimerName.TRANSITION, due=executing.since)
    elif executing.manager.due is not None:
        yield Timer(name=TimerName.TRANSITION, due=executing.manager.due)
    if executing.plan.retained_slots > executing.plan.slots:
        yield Timer(name=TimerName.SLOT_IDLE, due=executing.since + state.options.slot_idle_timeout)
    if executing.forced_at is not None:
        yield Timer(name=TimerName.FORCED_RESCALE, due=executing.forced_at)


def _lost_slots(state: SchedulerState, executing: Executing) -> int:
    return executing.plan.slots - state.held_slots


def _must_stop(state: SchedulerState) -> bool:
    waits = state.options.below_lower_bound is BelowLowerBound.WAIT
    return waits and resource_checks.possible_parallelism(state) is None


def _on_change(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan = executing.plan
    armed = replace(
        executing,
        forced_at=resource_checks.forced_rescale_at(state, plan, executing.since, executing.forced_at, event.at),
    )
    resources = resource_checks.executing_resources(state, plan)
    return _follow(state, armed, event, executing.manager.change(event.at, resources))


def _on_trigger(state: SchedulerState, executing: Executing, event: Event) -> Step:
    resources = resource_checks.executing_resources(state, executing.plan)
    manager = executing.manager.trigger(event.at, resources)
    return _follow(state, executing, event, manager)


def _follow(state: SchedulerState, executing: Executing, event: Event, manager: TransitionManager) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    if possible is not None and rescale_tiers.cheapest_allowed_tier(state, plan, possible) is Tier.EXECUTORS:
        # Executors come and go while the queries run: no batch has to end for that.
        manager = manager.trigger(event.at, resource_checks.executing_resources(state, plan))
    if manager.phase is Phase.TRANSITIONING and possible is not None:
        return state_transitions.rescale(state, event, plan, possible, _why(state, plan, possible))
    followed = replace(executing, manager=manager)
    return steps.stay(replace(state, current=followed), event, _why_not(state, event, followed, possible))


def _free_idle_slots(state: SchedulerState, executing: Executing, event: TimerFired) -> Step:
    """Release the slots that the plan does not use."""
    plan = executing.plan
    text = f"{plan.retained_slots - plan.slots} slot(s) were idle for slot_idle_timeout: the job releases them"
    freed = steps.with_current(state, plan=replace(plan, retained_slots=plan.slots))
    return steps.stay(freed, event, Reason(ReasonCode.SLOTS_IDLE, text))


def _force(state: SchedulerState, executing: Executing, event: Event) -> Step:
    plan, possible = executing.plan, resource_checks.possible_parallelism(state)
    changes = possible is not None and parallelism_changed(plan.parallelism, possible)
    if possible is None or not changes or not rescale_tiers.is_allowed(state, plan, possible):
        reason = Reason(ReasonCode.NO_PARALLELISM_CHANGE, "no forced rescale is necessary")
        return steps.stay(steps.with_current(state, forced_at=None), event, reason)
    text = f"forced after scaling_interval_max: {resource_checks.describe_change(executing.plan.parallelism, possible)}"
    return state_transitions.rescale(state, event, plan, possible, Reason(ReasonCode.FORCED_RESCALE, text))


def _why(state: SchedulerState, plan: Plan, possible: Parallelism) -> Reason:
    if parallelism_changed(plan.parallelism, possible):
        change = resource_checks.describe_change(plan.parallelism, possible)
        within = is_within(plan.parallelism, state.requirements)
        code = ReasonCode.SLOTS_AVAILABLE if within else ReasonCode.REQUIREMENTS_CHANGED
        return Reason(code, f"{state.available_slots} slot(s) are available, {plan.slots} are used: {change}")
    return Reason(ReasonCode.JOB_REDEPLOYED, f"redeployed: {rescale_tiers.describe_redeployment(state, plan)}")


def _why_not(state: SchedulerState, event: Event, executing: Executing, possible: Parallelism | None) -> Reason | None:
    plan, manager = executing.plan, executing.manager
    if possible is None:
        text = f"below the lower bound: {resource_checks.describe_shortage(state)}; the job keeps running"
        return Reason(ReasonCode.BELOW_LOWER_BOUND, text)
    if not parallelism_changed(plan.parallelism, possible):
        if isinstance(event, JobRedeployed) and (fixed := rescale_tiers.describe_fixed_partitions(state, plan)):
            return Reason(ReasonCode.TIER_NOT_ALLOWED, fixed)
        if manager.first_change is None or not rescale_tiers.is_redeployed(state, plan):
            return None
        code, text = _WAITS[manager.phase]
        return Reason(code, f"redeployed, but the rescale {text}")
    change = resource_checks.describe_change(plan.parallelism, possible)
    if not rescale_tiers.is_allowed(state, plan, possible):
        code = ReasonCode.PLAN_REJECTED if rescale_tiers.is_rejected(state, possible) else ReasonCode.TIER_NOT_ALLOWED
        return Reason(
            code,
            f"{change} is possible, but is not carried out: {rescale_tiers.describe_rejection(state, plan, possible)}",
        )
    if manager.first_change is None:
        return Reason(ReasonCode.BELOW_MINIMUM_INCREASE, f"{change} is possible, but is below the minimum increase")
    code, text = _WAITS[manager.phase]
    return Reason(code, f"{change} is possible, but {text}")


# ---- RestartingLocally ----------------------------------------------------------------------------------------------


def on_event_recovering(state: SchedulerState, recovering: RestartingLocally, event: Event) -> Step:
    """Return to Executing when the slots are back; make another plan when they cannot come back in time."""
    plan, held = recovering.plan, state.held_slots
    match event:
        case SlotsChanged() if held >= plan.slots:
            reason = Reason(ReasonCode.SLOTS_RECOVERED, "recovered locally: all slots of the plan are available again")
            return state_transitions.go_to_executing(state, event, plan, reason)
        case SlotsChanged() | RequirementsChanged():
            text = f"the job holds {held} of {plan.slots} slot(s), and {state.available_slots} slot(s) are available"
            return steps.stay(state, event, Reason(ReasonCode.SLOTS_PENDING, text))
        case TimerFired():
            return _escalate(state, recovering, event)
        case _:
            return on_event_with_plan(state, recovering, event)


def timers_recovering(state: SchedulerState, recovering: RestartingLocally) -> tuple[Timer, ...]:
    """Return the end of `local_recovery_timeout`; the deadline is now if too few slots are available."""
    timeout = NO_TIME if _cannot_recover(state, recovering) else state.options.local_recovery_timeout
    return (Timer(name=TimerName.LOCAL_RECOVERY, due=recovering.since + timeout),)


def _cannot_recover(state: SchedulerState, recovering: RestartingLocally) -> bool:
    return state.available_slots < recovering.plan.slots


def _escalate(state: SchedulerState, recovering: RestartingLocally, event: TimerFired) -> Step:
    plan, held = recovering.plan, state.held_slots
    if _cannot_recover(state, recovering):
        slots, code, why = state.available_slots, ReasonCode.SLOTS_LOST, "the lost slots cannot come back"
    else:
        slots, code = held, ReasonCode.LOCAL_RECOVERY_TIMEOUT
        why = f"the lost slots did not come back in time{steps.explanation(event)}"
    possible = resource_checks.possible_parallelism(state, slots)
    if possible is None:
        text = f"{why}: {resource_checks.describe_shortage(state, slots)}"
        return state_transitions.stop_and_wait(state, event, plan, Reason(ReasonCode.BELOW_LOWER_BOUND, text))
    reason = Reason(code, f"{why}: {resource_checks.describe_change(plan.parallelism, possible)}")
    suffices = used_slots(state.job, possible) <= held
    if suffices and rescale_tiers.cheapest_allowed_tier(state, plan, possible) is Tier.EXECUTORS:
        return state_transitions.go_to_executing_on_held_slots(state, event, plan, possible, reason)
    return state_transitions.rescale(state, event, plan, possible, reason)
