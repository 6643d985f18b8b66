"""The moves that states have in common: staying, and entering each state.

Every handler in `states` returns the `Step` that one of these builds; entering a state is written once, here, so that a
state begins the same whichever way leads to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from airflow_adaptive.scheduler import outlook
from airflow_adaptive.scheduler.commands import Command, KillDriver, SubmitDriver
from airflow_adaptive.scheduler.events import (
    BatchCommitted,
    BatchFailed,
    Event,
    PlanInForce,
    RequirementsChanged,
    SlotsChanged,
)
from airflow_adaptive.scheduler.policies import restart_backoff
from airflow_adaptive.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.policies.slot_allocation import used_slots
from airflow_adaptive.scheduler.policies.transition_manager import Resources, TransitionManager
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.restart_strategies import describe_strategy
from airflow_adaptive.scheduler.state import (
    Canceling,
    Current,
    Deploying,
    Driver,
    Executing,
    Failing,
    Finished,
    Outcome,
    Plan,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive.scheduler.timeline import Decision, Rescale, Transition

NO_TIME = timedelta(0)

NEUTRAL_DRAW = 0.5
"""For failures that no event with chance tells: no jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event led to.

    Attributes:
        state: the new state of the scheduler.
        commands: what is to be done to the world, in order.
        transition: the change of state, None if it stayed.
        decision: why.
        rescale: that ended, None if none did.
    """

    state: SchedulerState
    commands: tuple[Command, ...] = ()
    transition: Transition | None = None
    decision: Decision | None = None
    rescale: Rescale | None = None


# ---- staying --------------------------------------------------------------------------------------------------------


def stay(state: SchedulerState, event: Event, reason: str | None = None) -> Step:
    """No transition; with a reason if somebody may wonder."""
    decision = None if reason is None else Decision(at=event.at, state=state.name, reason=reason)
    return Step(state=state, decision=decision)


def ignore(state: SchedulerState, event: Event) -> Step:
    """The event leads nowhere in this state."""
    match event:
        case SlotsChanged() | BatchCommitted() | BatchFailed() | PlanInForce():
            return stay(state, event)
        case RequirementsChanged():
            return stay(state, event, f"the requirements are noted; nothing can follow from them while {state.name}")
        case _:
            return stay(state, event, f"{type(event).__name__} ignored while {state.name}")


def with_current(state: SchedulerState, **changes: Any) -> SchedulerState:
    """The same state with other data: no transition, no new version."""
    return replace(state, current=replace(state.current, **changes))


def kill_again(state: SchedulerState, event: Event, **changes: Any) -> Step:
    """The driver has not stopped within `stop_timeout`: kill it, and look again after another."""
    deadline = event.at + state.options.stop_timeout
    killed = with_current(state, stop_deadline=deadline, **changes)
    step = stay(killed, event, "the driver did not stop in time: it is killed")
    return replace(step, commands=kill_driver(state, event))


def kill_driver(state: SchedulerState, event: Event) -> tuple[Command, ...]:
    """The command that kills the driver, if there is one."""
    driver = state.driver
    if driver is None:
        return ()
    return (KillDriver(epoch=driver.epoch, submission_id=driver.submission_id, cause=type(event).__name__),)


# ---- on the way to running ------------------------------------------------------------------------------------------


def wait_for_resources(state: SchedulerState, event: Event, reason: str, goal: Parallelism | None = None) -> Step:
    """Enter WaitingForResources; what is there already counts as a change at this moment."""
    manager = TransitionManager.begin(
        event.at,
        stabilization=state.options.resource_stabilization_timeout,
        changed=outlook.waiting_resources(state, goal) >= Resources.SUFFICIENT,
    )
    waiting = WaitingForResources(since=event.at, manager=manager, gives_up=not state.has_run, goal=goal)
    return _go(state, event, waiting, reason)


def deploy(state: SchedulerState, event: Event, parallelism: Parallelism, reason: str) -> Step:
    """Enter Deploying: on the living driver, else on a new one under a new epoch."""
    slots = used_slots(state.job, parallelism)
    idle = state.options.slot_idle_timeout > NO_TIME
    hold = max(slots, state.held_slots) if idle else slots
    plan = Plan(version=state.version + 1, parallelism=parallelism, slots=slots, hold=hold)
    target = Deploying(since=event.at, plan=plan)
    if state.driver is not None:
        return _go(state, event, target, reason, tier=Tier.QUERY)
    epoch = state.epoch + 1
    submit = SubmitDriver(epoch=epoch, slots=slots, cause=type(event).__name__)
    submitted = replace(state, epoch=epoch, driver=Driver(epoch=epoch))
    return _go(submitted, event, target, reason, tier=Tier.DRIVER, commands=(submit,))


def execute(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter Executing: a new visit, with a cooldown of its own."""
    options, now = state.options, event.at
    running = None if state.driver is None else replace(state.driver, running=True)
    state = replace(state, driver=running, has_run=True)
    manager = TransitionManager.begin(
        now,
        cooldown=options.scaling_interval_min,
        stabilization=options.executing_stabilization_timeout,
        max_trigger_delay=outlook.max_trigger_delay(state),
        extension=options.cooldown_extension,
        limit=options.scaling_interval_max,
        changed=outlook.executing_resources(state, plan) >= Resources.SUFFICIENT,
    )
    forced_at = outlook.forced_rescale_at(state, plan, since=now, planned=None, now=now)
    return _go(state, event, Executing(since=now, plan=plan, manager=manager, forced_at=forced_at), reason)


def restart_locally(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter RestartingLocally."""
    return _go(state, event, RestartingLocally(since=event.at, plan=plan), reason, tier=Tier.EXECUTORS)


# ---- Restarting -----------------------------------------------------------------------------------------------------


def rescale(state: SchedulerState, event: Event, plan: Plan, goal: Parallelism, reason: str) -> Step:
    """Enter Restarting for another parallelism, without backoff, on the living driver."""
    target = _restarting(state, event, plan, in_place=True, goal=goal)
    return _go(_counted(state, rescales=1), event, target, reason, tier=Tier.QUERY)


def stop_and_wait(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter Restarting to give everything back: what is there is below the minimum (FLIP-291)."""
    target = _restarting(state, event, plan, in_place=False)
    return _go(_counted(state, rescales=1), event, target, reason, tier=Tier.DRIVER)


def handle_failure(
    state: SchedulerState, event: Event, plan: Plan, failure: Failure, draw: float, *, kill: bool = False
) -> Step:
    """Failing, or Restarting after the strategy's backoff; the strategy is asked only about recoverable failures.

    Args:
        state: the driver in it is None if it is gone, else it lives (or must be killed).
        event: that told of the failure.
        plan: that ran or was to run.
        failure: what happened.
        draw: chance for the backoff, in [0, 1).
        kill: the driver can't be trusted any more.
    """
    if not can_recover(state, failure):
        return fail(state, event, failure, f"the failure is not recoverable: {failure.summary}")
    strategy = state.options.restart_strategy
    record = restart_backoff.notify(strategy, state.restarts, event.at, draw)
    state = replace(state, restarts=record)
    if not restart_backoff.can_restart(strategy, record, event.at):
        return fail(
            state, event, failure, f"recovery is suppressed by {describe_strategy(strategy)}: {failure.summary}"
        )
    backoff = restart_backoff.backoff(strategy, record, event.at)
    target = _restarting(state, event, plan, in_place=not kill, failure=failure, backoff=backoff)
    commands = kill_driver(state, event) if kill else ()
    reason = f"{failure.summary}; restart in {backoff.total_seconds():g} s"
    return _go(_counted(state), event, target, reason, commands=commands)


def can_recover(state: SchedulerState, failure: Failure) -> bool:
    """Whether a restart of this job may help against the failure."""
    options = state.options
    return is_recoverable(
        failure, options.non_recoverable_failures, options.recoverable_failures, has_run=state.has_run
    )


def _restarting(
    state: SchedulerState,
    event: Event,
    plan: Plan,
    *,
    in_place: bool,
    goal: Parallelism | None = None,
    failure: Failure | None = None,
    backoff: timedelta = NO_TIME,
) -> Restarting:
    lives = state.driver is not None
    return Restarting(
        since=event.at,
        plan=plan,
        goal=goal,
        in_place=in_place and lives,
        failure=failure,
        backoff=backoff,
        settled=event.at if in_place or not lives else None,
        stop_deadline=event.at + state.options.stop_timeout,
    )


def _counted(state: SchedulerState, rescales: int = 0) -> SchedulerState:
    return replace(state, num_restarts=state.num_restarts + 1, num_rescales=state.num_rescales + rescales)


# ---- towards the end ------------------------------------------------------------------------------------------------


def stop_with_savepoint(state: SchedulerState, event: Event, plan: Plan) -> Step:
    """Enter StopWithSavepoint."""
    deadline = event.at + state.options.stop_timeout
    target = StopWithSavepoint(since=event.at, plan=plan, stop_deadline=deadline)
    return _go(state, event, target, "suspended as asked: stop at a batch boundary")


def cancel(state: SchedulerState, event: Event) -> Step:
    """Enter Canceling, or Finished where nothing runs that could be stopped."""
    if not runs_queries(state):
        return finish(state, event, Outcome.CANCELED, "canceled as asked")
    deadline = event.at + state.options.stop_timeout
    return _go(state, event, Canceling(since=event.at, stop_deadline=deadline), "canceled as asked")


def fail(state: SchedulerState, event: Event, cause: Failure, reason: str) -> Step:
    """Enter Failing, or Finished where nothing runs that could be stopped."""
    if not runs_queries(state):
        return finish(state, event, Outcome.FAILED, reason, cause)
    deadline = event.at + state.options.stop_timeout
    return _go(state, event, Failing(since=event.at, stop_deadline=deadline, cause=cause), reason)


def finish(state: SchedulerState, event: Event, outcome: Outcome, reason: str, cause: Failure | None = None) -> Step:
    """Enter Finished; a driver that still lives is killed, unless it ends by itself."""
    deadline = event.at + state.options.stop_timeout
    target = Finished(since=event.at, outcome=outcome, cause=cause, stop_deadline=deadline)
    commands = () if outcome is Outcome.FINISHED else kill_driver(state, event)
    return _go(state, event, target, reason, commands=commands)


def runs_queries(state: SchedulerState) -> bool:
    """Whether the driver may run queries that want a graceful end."""
    return state.driver is not None and state.driver.running


# ---- inside ---------------------------------------------------------------------------------------------------------


def _go(
    state: SchedulerState,
    event: Event,
    target: Current,
    reason: str,
    *,
    tier: Tier | None = None,
    commands: tuple[Command, ...] = (),
) -> Step:
    entered = replace(state, current=target, version=state.version + 1)
    transition = Transition(
        at=event.at,
        source=state.name,
        target=entered.name,
        version=entered.version,
        before=_parallelism(state.plan),
        after=_parallelism(entered.plan),
        tier=tier,
        reason=reason,
    )
    decision = Decision(at=event.at, state=state.name, reason=reason)
    return Step(state=entered, commands=commands, transition=transition, decision=decision)


def _parallelism(plan: Plan | None) -> Parallelism | None:
    return None if plan is None else plan.parallelism
