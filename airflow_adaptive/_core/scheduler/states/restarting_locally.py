"""RestartingLocally: let Spark recover from lost executors, or make a plan for the slots that are left."""

from __future__ import annotations

from airflow_adaptive._core.scheduler import rescale_tiers, resource_checks
from airflow_adaptive._core.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive._core.scheduler.events import Event, RequirementsChanged, SlotsChanged, TimerFired, TimerName
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.transition_manager import NO_TIME
from airflow_adaptive._core.scheduler.state import RestartingLocally, SchedulerState, Timer
from airflow_adaptive._core.scheduler.state_transitions import restart, start, steps
from airflow_adaptive._core.scheduler.state_transitions.steps import Step
from airflow_adaptive._core.scheduler.states import running
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode


def on_event(state: SchedulerState, recovering: RestartingLocally, event: Event) -> Step:
    """Return to Executing when the slots are back; make another plan when they cannot come back in time."""
    plan, held = recovering.plan, state.held_slots
    match event:
        case SlotsChanged() if held >= plan.slots:
            reason = Reason(ReasonCode.SLOTS_RECOVERED, "recovered locally: all slots of the plan are available again")
            return start.go_to_executing(state, event, plan, reason)
        case SlotsChanged() | RequirementsChanged():
            text = f"the job holds {held} of {plan.slots} slot(s), and {state.available_slots} slot(s) are available"
            return steps.stay(state, event, Reason(ReasonCode.SLOTS_PENDING, text))
        case TimerFired():
            return _escalate(state, recovering, event)
        case _:
            return running.on_event(state, recovering, event)


def timers(state: SchedulerState, recovering: RestartingLocally) -> tuple[Timer, ...]:
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
        return restart.stop_and_wait(state, event, plan, Reason(ReasonCode.BELOW_LOWER_BOUND, text))
    reason = Reason(code, f"{why}: {resource_checks.describe_change(plan.parallelism, possible)}")
    suffices = used_slots(state.job, possible) <= held
    if suffices and rescale_tiers.cheapest_allowed_tier(state, plan, possible) is Tier.EXECUTORS:
        return restart.go_to_executing_on_held_slots(state, event, plan, possible, reason)
    return restart.rescale(state, event, plan, possible, reason)
