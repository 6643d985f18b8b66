"""Deploying: the plan was handed out; wait for the driver to report it in force."""

from __future__ import annotations

from airflow_adaptive.scheduler import moves
from airflow_adaptive.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverSilent,
    Event,
    JobCompleted,
    PlanInForce,
    QueryFailed,
    SuspendRequested,
    TimerFired,
)
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.state import Deploying, Outcome, SchedulerState

DEPLOY_TIMEOUT = "DEPLOY_TIMEOUT"


def on_event(state: SchedulerState, deploying: Deploying, event: Event) -> Step:
    """A failure here goes to failure handling (Flink fails the job: FLINK-22692)."""
    plan = deploying.plan
    match event:
        case PlanInForce(version=version) if version == plan.version:
            return moves.execute(state, event, plan, "the driver reports the plan in force")
        case TimerFired():
            return _overdue(state, deploying, event)
        case DriverEnded(failure=failure, draw=draw):
            return moves.handle_failure(state, event, plan, failure, draw)
        case QueryFailed(failure=failure, draw=draw):
            return moves.handle_failure(state, event, plan, failure, draw)
        case DriverSilent(failure=failure, draw=draw):
            return moves.handle_failure(state, event, plan, failure, draw, kill=True)
        case JobCompleted():
            return moves.finish(state, event, Outcome.FINISHED, "all queries have ended")
        case CancelRequested():
            return moves.cancel(state, event)
        case SuspendRequested(with_savepoint=True) if state.driver is not None and state.driver.running:
            return moves.stop_with_savepoint(state, event, plan)
        case SuspendRequested():
            return moves.finish(state, event, Outcome.SUSPENDED, "suspended as asked")
        case _:
            return moves.ignore(state, event)


def _overdue(state: SchedulerState, deploying: Deploying, event: TimerFired) -> Step:
    """Plan again with what did arrive; if that is not the reason, the deployment has failed."""
    plan, arrived = deploying.plan, state.held_slots
    possible = moves.possible_parallelism(state, arrived)
    waited = state.options.deploy_timeout.total_seconds()
    if possible is not None and arrived < plan.slots:
        reason = f"only {arrived} of {plan.slots} slot(s) arrived in {waited:g} s: plan again"
        return moves.rescale(state, event, plan, possible, reason)
    failure = Failure(
        error_class=DEPLOY_TIMEOUT,
        message=f"the plan was not in force after {waited:g} s; {arrived} slot(s) had arrived",
    )
    return moves.handle_failure(state, event, plan, failure, moves.NEUTRAL_DRAW, kill=True)
