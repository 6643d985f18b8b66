"""The moves that states have in common: staying, and entering each state.

Every handler in `states` returns the `Step` that one of these builds; entering a state is written once, here, so that a state
begins the same whichever way leads to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from airflow_adaptive.scheduler.commands import Command, KillDriver, SubmitDriver
from airflow_adaptive.scheduler.events import Event
from airflow_adaptive.scheduler.policies import restart_backoff
from airflow_adaptive.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive.scheduler.policies.rescaling import MinimalIncrease, Tier, parallelism_changed, should_rescale
from airflow_adaptive.scheduler.policies.slot_allocation import determine_parallelism, required_slots, used_slots
from airflow_adaptive.scheduler.policies.transition_manager import Resources, TransitionManager
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
from airflow_adaptive.scheduler.timeline import Decision, Transition

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
    """

    state: SchedulerState
    commands: tuple[Command, ...] = ()
    transition: Transition | None = None
    decision: Decision | None = None


def stay(state: SchedulerState, event: Event, reason: str | None = None) -> Step:
    """No transition; with a reason if somebody may wonder."""
    decision = None if reason is None else Decision(at=event.at, state=state.name, reason=reason)
    return Step(state=state, decision=decision)


def ignore(state: SchedulerState, event: Event) -> Step:
    """The event has no meaning in this state."""
    return stay(state, event, f"{type(event).__name__} ignored while {state.name}")


def with_current(state: SchedulerState, **changes: Any) -> SchedulerState:
    """The same state with other data: no transition, no new version."""
    return replace(state, current=replace(state.current, **changes))


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


def _parallelism(plan: Plan | None) -> Mapping[str, int] | None:
    return None if plan is None else plan.parallelism


# ---- resources ------------------------------------------------------------------------------------------------------


def possible_parallelism(state: SchedulerState, slots: int | None = None) -> Mapping[str, int] | None:
    """The parallelism that `slots` slots (all available ones by default) give, None below the minimum."""
    available = state.available_slots if slots is None else slots
    return determine_parallelism(state.job, state.requirements, available)


def waiting_resources(state: SchedulerState, goal: Mapping[str, int] | None) -> Resources:
    """How far the available slots go for a job that does not run."""
    possible = possible_parallelism(state)
    if possible is None:
        return Resources.NONE
    all_there = state.available_slots >= required_slots(state.job, state.requirements)
    reached = goal is not None and all(possible[name] >= goal.get(name, 0) for name in possible)
    return Resources.DESIRED if all_there or reached else Resources.SUFFICIENT


def executing_resources(state: SchedulerState, plan: Plan) -> Resources:
    """How far the available slots go for a job that runs on `plan`: whether a rescale is worth it."""
    possible = possible_parallelism(state)
    if possible is None or not parallelism_changed(plan.parallelism, possible):
        return Resources.NONE
    controller = MinimalIncrease(min_increase=state.options.min_parallelism_increase)
    if not should_rescale(plan.parallelism, possible, state.requirements, controller):
        return Resources.NONE
    all_there = state.available_slots >= required_slots(state.job, state.requirements)
    return Resources.DESIRED if all_there else Resources.SUFFICIENT


# ---- entering states ------------------------------------------------------------------------------------------------


def wait_for_resources(state: SchedulerState, event: Event, reason: str, goal: Mapping[str, int] | None = None) -> Step:
    """Enter WaitingForResources; what is there already counts as a change at this moment."""
    manager = TransitionManager(
        cooldown=NO_TIME,
        stabilization=state.options.resource_stabilization_timeout,
        max_trigger_delay=NO_TIME,
        cooldown_ends=event.at,
        first_change=event.at if waiting_resources(state, goal) >= Resources.SUFFICIENT else None,
    )
    waiting = WaitingForResources(since=event.at, manager=manager, gives_up=not state.has_run, goal=goal)
    return _go(state, event, waiting, reason)


def deploy(state: SchedulerState, event: Event, parallelism: Mapping[str, int], reason: str) -> Step:
    """Enter Deploying: on the living driver, else on a new one under a new epoch."""
    slots = used_slots(state.job, parallelism)
    target = Deploying(since=event.at, plan=Plan(version=state.version + 1, parallelism=parallelism, slots=slots))
    if state.driver is not None:
        return _go(state, event, target, reason, tier=Tier.QUERY)
    epoch = state.epoch + 1
    submit = SubmitDriver(epoch=epoch, slots=slots, cause=type(event).__name__)
    return _go(_with_new_driver(state, epoch), event, target, reason, tier=Tier.DRIVER, commands=(submit,))


def execute(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter Executing: a new visit, with a cooldown of its own."""
    options, now = state.options, event.at
    running = None if state.driver is None else replace(state.driver, running=True)
    state = replace(state, driver=running, has_run=True)
    changed = executing_resources(state, plan) >= Resources.SUFFICIENT
    limit = options.scaling_interval_max
    manager = TransitionManager(
        cooldown=options.scaling_interval_min,
        stabilization=options.executing_stabilization_timeout,
        max_trigger_delay=options.max_trigger_delay,
        extension=options.cooldown_extension,
        cooldown_ends=now + options.scaling_interval_min,
        cooldown_limit=None if limit is None else now + limit,
        first_change=now if changed else None,
    )
    return _go(state, event, Executing(since=now, plan=plan, manager=manager), reason)


def restart_locally(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter RestartingLocally."""
    return _go(state, event, RestartingLocally(since=event.at, plan=plan), reason, tier=Tier.EXECUTORS)


def rescale(state: SchedulerState, event: Event, plan: Plan, goal: Mapping[str, int], reason: str) -> Step:
    """Enter Restarting for another parallelism, without backoff, on the living driver."""
    target = _restarting(state, event, plan, goal=goal, in_place=True, settled=True)
    counted = replace(state, num_restarts=state.num_restarts + 1, num_rescales=state.num_rescales + 1)
    return _go(counted, event, target, reason, tier=Tier.QUERY)


def stop_and_wait(state: SchedulerState, event: Event, plan: Plan, reason: str) -> Step:
    """Enter Restarting to give everything back: what is there is below the minimum (FLIP-291)."""
    target = _restarting(state, event, plan, in_place=False, settled=state.driver is None)
    counted = replace(state, num_restarts=state.num_restarts + 1, num_rescales=state.num_rescales + 1)
    return _go(counted, event, target, reason, tier=Tier.DRIVER)


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
    if not is_recoverable(failure):
        return fail(state, event, failure, f"the failure is not recoverable: {failure}")
    strategy = state.options.restart_strategy
    record = restart_backoff.notify(strategy, state.restarts, event.at, draw)
    state = replace(state, restarts=record)
    if not restart_backoff.can_restart(strategy, record, event.at):
        return fail(state, event, failure, f"recovery is suppressed by {strategy}: {failure}")
    backoff = restart_backoff.backoff(strategy, record, event.at)
    in_place = state.driver is not None and not kill
    target = _restarting(
        state,
        event,
        plan,
        in_place=in_place,
        settled=state.driver is None or in_place,
        failure=failure,
        backoff=backoff,
    )
    state = replace(state, num_restarts=state.num_restarts + 1)
    commands = kill_driver(state, event) if kill else ()
    reason = f"{failure}; restart in {backoff.total_seconds():g} s"
    return _go(state, event, target, reason, commands=commands)


def fail(state: SchedulerState, event: Event, cause: Failure, reason: str) -> Step:
    """Enter Failing, or Finished where nothing runs that could be stopped."""
    if not _has_queries(state):
        return finish(state, event, Outcome.FAILED, reason, cause)
    deadline = event.at + state.options.stop_timeout
    return _go(state, event, Failing(since=event.at, stop_deadline=deadline, cause=cause), reason)


def cancel(state: SchedulerState, event: Event) -> Step:
    """Enter Canceling, or Finished where nothing runs that could be stopped."""
    if not _has_queries(state):
        return finish(state, event, Outcome.CANCELED, "canceled as asked")
    deadline = event.at + state.options.stop_timeout
    return _go(state, event, Canceling(since=event.at, stop_deadline=deadline), "canceled as asked")


def stop_with_savepoint(state: SchedulerState, event: Event, plan: Plan) -> Step:
    """Enter StopWithSavepoint."""
    deadline = event.at + state.options.stop_timeout
    target = StopWithSavepoint(since=event.at, plan=plan, stop_deadline=deadline)
    return _go(state, event, target, "suspended as asked: stop at a batch boundary")


def finish(state: SchedulerState, event: Event, outcome: Outcome, reason: str, cause: Failure | None = None) -> Step:
    """Enter Finished; a driver that still lives is killed, unless it ends by itself."""
    deadline = event.at + state.options.stop_timeout
    target = Finished(since=event.at, outcome=outcome, cause=cause, stop_deadline=deadline)
    commands = () if outcome is Outcome.FINISHED else kill_driver(state, event)
    return _go(state, event, target, reason, commands=commands)


def kill_driver(state: SchedulerState, event: Event) -> tuple[Command, ...]:
    """The command that kills the driver, if there is one."""
    driver = state.driver
    if driver is None:
        return ()
    return (KillDriver(epoch=driver.epoch, submission_id=driver.submission_id, cause=type(event).__name__),)


def kill_again(state: SchedulerState, event: Event, **changes: Any) -> Step:
    """The driver has not stopped within `stop_timeout`: kill it, and look again after another."""
    deadline = event.at + state.options.stop_timeout
    step = stay(
        with_current(state, stop_deadline=deadline, **changes), event, "the driver did not stop in time: it is killed"
    )
    return replace(step, commands=kill_driver(state, event))


# ---- inside ---------------------------------------------------------------------------------------------------------


def _restarting(
    state: SchedulerState,
    event: Event,
    plan: Plan,
    *,
    in_place: bool,
    settled: bool,
    goal: Mapping[str, int] | None = None,
    failure: Failure | None = None,
    backoff: timedelta = NO_TIME,
) -> Restarting:
    return Restarting(
        since=event.at,
        plan=plan,
        goal=goal,
        in_place=in_place,
        failure=failure,
        backoff=backoff,
        settled=event.at if settled else None,
        stop_deadline=event.at + state.options.stop_timeout,
    )


def _with_new_driver(state: SchedulerState, epoch: int) -> SchedulerState:
    return replace(state, epoch=epoch, driver=Driver(epoch=epoch))


def _has_queries(state: SchedulerState) -> bool:
    """Whether the driver may run queries that want a graceful end."""
    return state.driver is not None and state.driver.running
