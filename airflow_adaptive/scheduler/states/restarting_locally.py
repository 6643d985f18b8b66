"""RestartingLocally: executors were lost; let Spark recover, or make a new plan from what is there."""

from __future__ import annotations

from airflow_adaptive.scheduler import rescale_tiers, resource_checks, state_transitions
from airflow_adaptive.scheduler.allocator.slot_sharing import used_slots
from airflow_adaptive.scheduler.events import Event, RequirementsChanged, SlotsChanged, TimerFired, TimerName
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.state import RestartingLocally, SchedulerState, Timer
from airflow_adaptive.scheduler.state_transitions import Step
from airflow_adaptive.scheduler.states import running


def on_event(state: SchedulerState, recovering: RestartingLocally, event: Event) -> Step:
    """Recovered when the plan's slots are back; escalated when they can't come back, or not in time."""
    plan, held = recovering.plan, state.held_slots
    match event:
        case SlotsChanged() if held >= plan.slots:
            return state_transitions.execute(state, event, plan, "recovered locally: the plan's slots are back")
        case SlotsChanged() | RequirementsChanged():
            return state_transitions.stay(
                state, event, f"{held} of {plan.slots} slot(s) are there, {state.available_slots} may be"
            )
        case TimerFired():
            return _escalate(state, recovering, event)
        case _:
            return running.on_event(state, recovering, event)


def timers(state: SchedulerState, recovering: RestartingLocally) -> tuple[Timer, ...]:
    """The end of patience; at once when there are too few slots to get back to the plan."""
    patience = state_transitions.NO_TIME if _is_hopeless(state, recovering) else state.options.local_recovery_timeout
    return (Timer(name=TimerName.LOCAL_RECOVERY, due=recovering.since + patience),)


def _is_hopeless(state: SchedulerState, recovering: RestartingLocally) -> bool:
    return state.available_slots < recovering.plan.slots


def _escalate(state: SchedulerState, recovering: RestartingLocally, event: Event) -> Step:
    plan, held = recovering.plan, state.held_slots
    if _is_hopeless(state, recovering):
        slots, why = state.available_slots, "the lost slots can't come back"
    else:
        slots, why = held, "the lost slots did not come back in time"
    possible = resource_checks.possible_parallelism(state, slots)
    if possible is None:
        return state_transitions.stop_and_wait(state, event, plan, f"{why}: {resource_checks.shortage(state, slots)}")
    reason = f"{why}: {resource_checks.change(plan.parallelism, possible)}"
    there = used_slots(state.job, possible) <= held
    if there and rescale_tiers.tier(state, plan, possible) is Tier.EXECUTORS:
        return state_transitions.accept(state, event, plan, possible, reason)
    return state_transitions.rescale(state, event, plan, possible, reason)
