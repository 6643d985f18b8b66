"""What holds of every state and of every step, whatever happened."""

from collections.abc import Mapping
from dataclasses import replace

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler import machine, rescale_tiers, resource_checks
from airflow_adaptive._core.scheduler.allocator import used_slots
from airflow_adaptive._core.scheduler.config.options import BelowLowerBound
from airflow_adaptive._core.scheduler.events import (
    CancelRequested,
    DriverEnded,
    DriverHeartbeatTimedOut,
    Event,
    QueryFailed,
    SavepointCompleted,
    SavepointFailed,
    SchedulingStarted,
    SlotsChanged,
    SuspendRequested,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.policies.restart_backoff import ExponentialDelay, FixedDelay, NoRestart
from airflow_adaptive._core.scheduler.policies.transition_manager import CooldownExtension, Phase
from airflow_adaptive._core.scheduler.requirements import Parallelism
from airflow_adaptive._core.scheduler.snapshot import from_json, to_json
from airflow_adaptive._core.scheduler.standby import is_about_standby
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    Outcome,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive._core.scheduler.steps import KillDriver, Step, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._core.scheduler.transition_table import TRANSITIONS
from tests.support.scheduler.rescale_invariants import check_rescales

RUNNING = Executing | RestartingLocally | StopWithSavepoint | Canceling | Failing
"""States in which the driver may run queries."""

FAILURES_COUNT = Deploying | Executing | RestartingLocally
"""States in which a failure is decided on at once."""

WAYS_OUT: Mapping[type[Current], type[Event] | TimerName | None] = {
    Created: SchedulingStarted,
    WaitingForResources: SlotsChanged,
    Deploying: TimerName.DEPLOY,
    Executing: DriverHeartbeatTimedOut,
    RestartingLocally: TimerName.LOCAL_RECOVERY,
    Restarting: None,
    StopWithSavepoint: TimerName.STOP,
    Canceling: TimerName.STOP,
    Failing: TimerName.STOP,
}
"""What ends the wait of a state if nothing else does: a timer of its own, or an event from outside.

The loop starts every new job, requests slots from the cluster at every poll, and reports a driver without a new status as `DriverHeartbeatTimedOut`.
A job that restarts has the timer that fits: STOP until all has stopped, then BACKOFF. STOP kills a driver again until the
cluster, or the end of its lease, reports the end.
"""


# ---- one state ------------------------------------------------------------------------------------------------------


def check_state(state: SchedulerState) -> None:
    """One state by itself."""
    assert from_json(to_json(state)) == state
    check_driver_of(state)
    check_way_out(state)
    check_manager(state)


def check_driver_of(state: SchedulerState) -> None:
    """The driver that the state remembers is the newest, and there is one where the state needs one."""
    current, driver = state.current, state.driver
    assert driver is None or driver.epoch == state.epoch
    if isinstance(current, RUNNING):
        assert driver is not None
        assert driver.running
    if isinstance(current, Deploying):
        assert driver is not None
    if isinstance(current, Restarting):
        assert driver is not None or not current.in_place
        assert driver is not None or current.stopped_at is not None


def check_way_out(state: SchedulerState) -> None:
    """Something will come."""
    names = {timer.name for timer in machine.timers(state)}
    match state.current:
        case Restarting(stopped_at=None, is_move=True):  # The driver stops, or its heartbeat times out.
            assert state.driver is not None
        case Restarting(stopped_at=stopped_at):
            assert (TimerName.STOP if stopped_at is None else TimerName.BACKOFF) in names
        case Finished():
            assert state.driver is None or TimerName.STOP in names
        case current:
            way_out = WAYS_OUT[type(current)]
            assert way_out in names or not isinstance(way_out, TimerName)


def check_manager(state: SchedulerState) -> None:
    """The transition manager of a visit keeps the cooldown and its limit, and is not at its end."""
    if not isinstance(state.current, Executing | WaitingForResources):
        return
    manager = state.current.manager
    assert manager.phase is not Phase.TRANSITIONING
    ends = state.current.since + manager.cooldown
    if manager.extension is CooldownExtension.NONE:
        assert manager.cooldown_ends == ends
    else:
        assert manager.cooldown_ends >= ends
    if manager.cooldown_limit is not None:
        assert manager.cooldown_ends <= manager.cooldown_limit
    if manager.phase in (Phase.STABILIZING, Phase.STABILIZED):
        assert manager.first_change is not None


# ---- one step -------------------------------------------------------------------------------------------------------


def check_step(before: SchedulerState, event: Event, step: Step) -> None:
    """One step from one state, the new state included."""
    check_state(step.state)
    check_edge(before, event, step)


def check_edge(before: SchedulerState, event: Event, step: Step) -> None:
    """One step from one state."""
    if is_outdated(before, event):
        assert step.state == before
        assert not step.commands
    check_table(before, event, step)
    check_reason(before, event, step)
    check_plan(before, step)
    check_driver(before, event, step)
    check_commands(before, step)
    check_restarts(before, event, step)
    check_cooldown(before, event, step)
    check_desired_state(before, event, step)
    check_rescales(before, step)
    if isinstance(before.current, Finished):
        assert isinstance(step.state.current, Finished)
        assert step.state.current.outcome is before.current.outcome


def is_outdated(state: SchedulerState, event: Event) -> bool:
    """Whether the event belongs to a driver or to a version that is gone, or comes before its time."""
    if isinstance(event, TimerFired):
        due = {timer.name for timer in machine.timers(state) if timer.due <= event.at}
        return event.version != state.version or event.timer not in due
    epoch: int | None = getattr(event, "epoch", None)
    return epoch is not None and epoch != state.epoch and not is_about_standby(state, event)


def check_reason(before: SchedulerState, event: Event, step: Step) -> None:
    """Each transition and each decision has a reason code and a text, and both tell the same."""
    decision, transition = step.decision, step.transition
    if decision is not None:
        assert isinstance(decision.reason_code, ReasonCode)
        assert decision.reason
        assert (decision.reason_code is ReasonCode.EVENT_OUTDATED) == is_outdated(before, event)
    if transition is not None:
        assert decision is not None
        assert (transition.reason_code, transition.reason) == (decision.reason_code, decision.reason)


def check_table(before: SchedulerState, event: Event, step: Step) -> None:
    """The state changes only as the table says, and each change has a version of its own and a reason."""
    after = step.state
    if step.transition is None:
        assert type(after.current) is type(before.current)
        assert after.version == before.version
    else:
        assert type(after.current) in TRANSITIONS[type(before.current)][type(event)]
        assert after.version == before.version + 1
        assert step.transition.reason


def check_plan(before: SchedulerState, step: Step) -> None:
    """A plan that is made lies within the bounds, on slots that are there, and is new."""
    state, current = step.state, step.state.current
    if step.transition is None:
        return
    if isinstance(current, Deploying):
        check_parallelism(state, current.plan.parallelism)
        assert current.plan.version == state.version
        assert current.plan.slots == used_slots(state.job, current.plan.parallelism) <= current.plan.retained_slots
        check_tier(state, current)
    if isinstance(current, Restarting) and current.target_parallelism is not None and not is_move(step):
        check_parallelism(state, current.target_parallelism)
        assert dict(current.target_parallelism) != dict(current.plan.parallelism) or may_stay(before, state, current)


def check_tier(state: SchedulerState, deploying: Deploying) -> None:
    """Queries that continue are not built again, all other queries are; no rescale uses a tier above the highest allowed tier."""
    plan, before = deploying.plan, deploying.previous_plan
    if deploying.tier is Tier.EXECUTORS:
        assert before is not None
        assert (plan.query_version, plan.state_partitions, plan.retained_slots) == (
            before.query_version,
            before.state_partitions,
            plan.slots,
        )
    else:
        assert plan.query_version == plan.version
    assert before is None or deploying.tier <= state.options.highest_rescale_tier


def may_stay(before: SchedulerState, state: SchedulerState, restarting: Restarting) -> bool:
    """After a failed rescale, the next tier to the same parallelism follows; the job may also be deployed again."""
    return isinstance(before.current, Deploying) or rescale_tiers.is_redeployed(state, restarting.plan)


def is_move(step: Step) -> bool:
    """Whether another driver continues with the same parallelism, because this one leaves its machine; it waits if too few slots are left."""
    return step.decision is not None and step.decision.reason_code is ReasonCode.DRIVER_MOVED


def check_parallelism(state: SchedulerState, parallelism: Parallelism) -> None:
    """Every vertex is within the active bounds, and only existing slots are used."""
    assert parallelism.keys() == state.requirements.keys()
    for name, bounds in state.requirements.items():
        assert bounds.lower <= parallelism[name] <= bounds.upper
    assert used_slots(state.job, parallelism) <= state.available_slots


def check_driver(before: SchedulerState, event: Event, step: Step) -> None:
    """At most one driver, and one standby. Each has an epoch of its own, and the driver starts when the one before it is verified dead."""
    submitted = [command for command in step.commands if isinstance(command, SubmitDriver)]
    assert [it.epoch for it in submitted] == [before.last_epoch + 1] * len(submitted)
    assert step.state.last_epoch == before.last_epoch + len(submitted)
    standby = step.state.standby.driver
    assert standby is None or standby.epoch > step.state.epoch
    if before.driver is not None and step.state.driver is None:
        assert isinstance(event, DriverEnded)
        assert event.epoch == before.driver.epoch
    if step.state.epoch != before.epoch:
        assert before.driver is None
        assert isinstance(step.state.current, Deploying)
        if submitted:
            assert [(it.epoch, it.slots) for it in submitted] == [(step.state.epoch, step.state.current.plan.slots)]
        else:
            assert before.standby.is_prepared
            assert before.standby.driver is not None
            assert step.state.driver == replace(before.standby.driver, took_over=True)
            assert standby is None
    elif submitted:
        assert [it.is_standby for it in submitted] == [True]
        assert isinstance(step.state.current, Executing)
        assert before.standby.driver is None


def check_commands(before: SchedulerState, step: Step) -> None:
    """Commands concern only the driver that may live, and contain their purpose."""
    for command in step.commands:
        assert command.cause
        if isinstance(command, KillDriver):
            known = [(it.epoch, it.submission_id) for it in (before.driver, before.standby.driver) if it is not None]
            assert (command.epoch, command.submission_id) in known


# ---- failures -------------------------------------------------------------------------------------------------------


def check_restarts(before: SchedulerState, event: Event, step: Step) -> None:
    """The restart strategy decides exactly once for each recoverable failure that has not been repeated too often, and for no other event."""
    strategy, current = before.options.restart_strategy, step.state.current
    failure = None if is_outdated(before, event) else decided_failure(before, event, step)
    restarts = failure is not None and may_recover(before, failure) and not gives_up(step, event, failure)
    if isinstance(strategy, FixedDelay):
        assert step.state.restarts.attempts - before.restarts.attempts == restarts
    if failure is None:
        assert not isinstance(current, Failing) or isinstance(before.current, Failing)
        return
    allowed = restarts and before.restarts.attempts < attempts_allowed(before)
    if allowed:
        assert isinstance(current, Restarting)
        assert current.failure == failure
    else:
        assert isinstance(current, Failing) or (isinstance(current, Finished) and current.outcome is Outcome.FAILED)


def may_recover(state: SchedulerState, failure: Failure) -> bool:
    """What the policy says under this job's options."""
    mends_not, mends = state.options.non_recoverable_failures, state.options.recoverable_failures
    return is_recoverable(failure, mends_not, mends, was_accepted=state.was_accepted, has_run=state.has_run)


def gives_up(step: Step, event: Event, failure: Failure) -> bool:
    """Whether the deployment has failed too often in the same way before its first batch."""
    return step.state.proved.repetitions(failure, event.at) >= step.state.options.max_failures_before_first_batch


def attempts_allowed(state: SchedulerState) -> int:
    """How many restarts the strategies of these tests allow."""
    match state.options.restart_strategy:
        case FixedDelay(attempts=attempts) | ExponentialDelay(attempts_before_reset_backoff=attempts):
            return attempts
        case NoRestart():
            return 0
        case strategy:
            raise AssertionError(f"not expected here: {strategy}")


def decided_failure(before: SchedulerState, event: Event, step: Step) -> Failure | None:
    """The failure that is decided on at this step; one in the midst of a stop is decided on when the stop is known."""
    if is_about_standby(before, event):
        return None
    match before.current, event:
        case current, DriverEnded(is_move=True) if isinstance(current, FAILURES_COUNT):
            assert is_move(step)
            return None
        case current, DriverEnded() | DriverHeartbeatTimedOut() | QueryFailed() if isinstance(current, FAILURES_COUNT):
            return event.failure
        case Deploying(), TimerFired():
            reported = getattr(step.state.current, "failure", None) or getattr(step.state.current, "cause", None)
            return reported if reported is not None and reported.error_class == FailureCode.DEPLOY_TIMEOUT else None
        case StopWithSavepoint() as stopping, _:
            return decided_while_stopping(stopping, event, step)
        case _:
            return None


def decided_while_stopping(stopping: StopWithSavepoint, event: Event, step: Step) -> Failure | None:
    """As Flink: the savepoint exists and the job could not be stopped, or the stop failed, or the driver died of it."""
    gone_too_early = not (stopping.saved or stopping.killed)
    match event:
        case QueryFailed(failure=failure) if stopping.saved:
            return wrapped(failure, step)
        case SavepointCompleted() if stopping.failure is not None:
            return wrapped(stopping.failure, step)
        case SavepointFailed():
            return stopping.failure
        case DriverEnded(failure=failure) | DriverHeartbeatTimedOut(failure=failure) if gone_too_early:
            return stopping.failure or failure
        case _:
            return None


def wrapped(cause: Failure, step: Step) -> Failure:
    """The failure that reports an existing savepoint, with its cause."""
    reported = getattr(step.state.current, "failure", None) or getattr(step.state.current, "cause", None)
    assert isinstance(reported, Failure)
    assert reported.causes == (cause.error_class, *cause.causes)
    return reported


# ---- rescales -------------------------------------------------------------------------------------------------------


def check_cooldown(before: SchedulerState, event: Event, step: Step) -> None:
    """A visit of Executing begins with a cooldown; no rescale in it, but for what can't wait: the lower bound."""
    current, left = step.state.current, before.current
    if isinstance(current, Executing) and step.transition is not None:
        assert current.since == event.at
        assert current.manager.cooldown == step.state.options.scaling_interval_min
    if not isinstance(left, Executing):
        return
    cooling = left.manager.phase is Phase.COOLDOWN and event.at < left.since + left.manager.cooldown
    if isinstance(current, Executing) and cooling:
        assert current.manager.phase is Phase.COOLDOWN
    if isinstance(current, Deploying):
        assert not cooling
    if isinstance(current, Restarting) and current.failure is None and current.target_parallelism is not None:
        assert not cooling or is_move(step)
    if isinstance(current, Restarting) and current.failure is None and current.target_parallelism is None:
        assert resource_checks.possible_parallelism(step.state) is None
        assert step.state.options.below_lower_bound is BelowLowerBound.WAIT


def check_desired_state(before: SchedulerState, event: Event, step: Step) -> None:
    """A request to cancel or suspend has an effect in every state that is not terminal."""
    if isinstance(event, CancelRequested) and not isinstance(before.current, Finished):
        assert isinstance(step.state.current, Canceling | Finished)
    if isinstance(event, SuspendRequested) and not isinstance(before.current, Finished | Canceling | Failing):
        assert isinstance(step.state.current, StopWithSavepoint | Finished)
