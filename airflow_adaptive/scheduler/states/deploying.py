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
    """The end of patience with the deployment."""
    return (Timer(name=TimerName.DEPLOY, due=deploying.since + state.options.deploy_timeout),)


def _in_force(state: SchedulerState, deploying: Deploying, event: PlanInForce | SlotsChanged) -> Step:
    """Slots that are still to come would look lost to Executing: they are waited for here."""
    plan, arrived = deploying.plan, state.held_slots
    if arrived >= plan.slots:
        return moves.execute(state, event, plan, "the driver reports the plan in force")
    reason = f"the plan is in force on {arrived} of {plan.slots} slot(s): the others are awaited"
    return moves.stay(moves.with_current(state, in_force=True), event, reason)


def _overdue(state: SchedulerState, deploying: Deploying, event: TimerFired) -> Step:
    """Plan again with what did arrive; if that is not the reason, the deployment has failed."""
    plan, arrived = deploying.plan, state.held_slots
    possible = outlook.possible_parallelism(state, arrived)
    waited = state.options.deploy_timeout.total_seconds()
    if possible is not None and arrived < plan.slots:
        reason = f"only {arrived} of {plan.slots} slot(s) arrived in {waited:g} s: plan again"
        return moves.rescale(state, event, plan, possible, reason)
    failure = Failure(
        error_class=DEPLOY_TIMEOUT,
        message=f"the plan was not in force after {waited:g} s; {arrived} slot(s) had arrived",
    )
    return moves.handle_failure(state, event, plan, failure, moves.NEUTRAL_DRAW, kill=True)
