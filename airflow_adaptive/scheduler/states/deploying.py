"""Deploying: the plan was handed out; wait until it is in force on all its slots."""

from __future__ import annotations

from airflow_adaptive.scheduler import moves, outlook
from airflow_adaptive.scheduler.events import Event, PlanInForce, SlotsChanged, TimerFired, TimerName
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.state import Deploying, SchedulerState, Timer
from airflow_adaptive.scheduler.states import running

DEPLOY_TIMEOUT = "DEPLOY_TIMEOUT"


def on_event(state: SchedulerState, deploying: Deploying, event: Event) -> Step:
    """A failure here goes to failure handling (Flink fails the job: FLINK-22692)."""
    match event:
        case PlanInForce(version=version) if version == deploying.plan.version:
            return _in_force(state, deploying, event)
        case SlotsChanged() if deploying.in_force:
            return _in_force(state, deploying, event)
        case TimerFired():
            return _overdue(state, deploying, event)
        case _:
            return running.on_event(state, deploying, event)


def timers(state: SchedulerState, deploying: Deploying) -> tuple[Timer, ...]:
    """The end of patience with the deployment; at once when it is known that the slots for it can't come."""
    patience = moves.NO_TIME if _is_hopeless(state, deploying) else state.options.deploy_timeout
    return (Timer(name=TimerName.DEPLOY, due=deploying.since + patience),)


def _in_force(state: SchedulerState, deploying: Deploying, event: PlanInForce | SlotsChanged) -> Step:
    """Slots that are still to come would look lost to Executing: they are waited for here."""
    plan, arrived = deploying.plan, state.held_slots
    if arrived >= plan.slots:
        return moves.execute(state, event, plan, "the driver reports the plan in force")
    reason = f"the plan is in force on {arrived} of {plan.slots} slot(s): the others are awaited"
    return moves.stay(moves.with_current(state, in_force=True), event, reason)


def _is_hopeless(state: SchedulerState, deploying: Deploying) -> bool:
    """Too few slots, held or to be had; what was granted is unknown until the application has registered."""
    registered = state.driver is not None and (state.driver.running or state.driver.application_id is not None)
    return registered and state.available_slots < deploying.plan.slots


def _overdue(state: SchedulerState, deploying: Deploying, event: TimerFired) -> Step:
    """Plan again with what is there; if that is not the reason, the deployment has failed."""
    plan, waited = deploying.plan, (event.at - deploying.since).total_seconds()
    if _is_hopeless(state, deploying):
        slots, why = state.available_slots, f"only {state.available_slots} of {plan.slots} slot(s) are left"
    else:
        slots, why = state.held_slots, f"only {state.held_slots} of {plan.slots} slot(s) arrived in {waited:g} s"
    possible = outlook.possible_parallelism(state, slots)
    if possible is not None and slots < plan.slots:
        return moves.rescale(state, event, plan, possible, f"{why}: plan again")
    if _is_hopeless(state, deploying):
        return moves.stop_and_wait(state, event, plan, f"{why}: {outlook.shortage(state, slots)}")
    failure = Failure(
        error_class=DEPLOY_TIMEOUT,
        message=f"the plan was not in force after {waited:g} s; {slots} slot(s) had arrived",
    )
    return moves.handle_failure(state, event, plan, failure, moves.NEUTRAL_DRAW, kill=True)
