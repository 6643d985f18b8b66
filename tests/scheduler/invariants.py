"""What holds of every state and of every step, whatever happened."""

from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.commands import SubmitDriver
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.policies.restart_backoff import FixedDelay
from airflow_adaptive.scheduler.policies.slot_allocation import used_slots
from airflow_adaptive.scheduler.requirements import Parallelism
from airflow_adaptive.scheduler.snapshot import from_json, to_json
from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Deploying,
    Executing,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive.scheduler.transitions import TRANSITIONS

RUNNING = Executing | RestartingLocally | StopWithSavepoint | Canceling | Failing
"""States in which the driver may run queries."""


def check_state(state: SchedulerState) -> None:
    """One state by itself."""
    current, driver = state.current, state.driver
    assert from_json(to_json(state)) == state
    assert driver is None or driver.epoch == state.epoch
    if isinstance(current, RUNNING):
        assert driver is not None
        assert driver.running
    if isinstance(current, Deploying):
        assert driver is not None
    if isinstance(current, Restarting):
        assert driver is not None or not current.in_place
        assert driver is not None or current.settled is not None
    assert state.num_rescales <= state.num_restarts
    assert is_awaited(state)


def is_awaited(state: SchedulerState) -> bool:
    """Something will come: a deadline, slots, or news of the driver."""
    match state.current:
        case Created() | WaitingForResources():
            return True
        case Executing():
            return state.driver is not None
        case Finished():
            return state.driver is None or bool(machine.timers(state))
        case _:
            return bool(machine.timers(state))


def check_step(before: SchedulerState, event: object, step: Step) -> None:
    """One step from one state."""
    after = step.state
    check_state(after)
    if step.transition is None:
        assert type(after.current) is type(before.current)
        assert after.version == before.version
    else:
        assert type(after.current) in TRANSITIONS[type(before.current)][type(event)]
        assert after.version == before.version + 1
    if isinstance(after.current, Deploying) and step.transition is not None:
        check_parallelism(after, after.current.plan.parallelism)
    if isinstance(after.current, Restarting) and after.current.goal is not None and step.transition is not None:
        check_parallelism(after, after.current.goal)
    check_epoch(before, step)
    check_restarts(before, step)
    if isinstance(before.current, Finished):
        assert isinstance(after.current, Finished)
        assert after.current.outcome is before.current.outcome


def check_parallelism(state: SchedulerState, parallelism: Parallelism) -> None:
    """A plan that is made lies within the bounds, on slots that are known."""
    for name, bounds in state.requirements.items():
        assert bounds.lower <= parallelism[name] <= bounds.upper
    assert used_slots(state.job, parallelism) <= state.available_slots


def check_epoch(before: SchedulerState, step: Step) -> None:
    """A driver is started at most once for each epoch, and only when the one before it is gone."""
    submitted = [command for command in step.commands if isinstance(command, SubmitDriver)]
    assert step.state.epoch == before.epoch + len(submitted)
    if submitted:
        assert before.driver is None
        assert [command.epoch for command in submitted] == [step.state.epoch]


def check_restarts(before: SchedulerState, step: Step) -> None:
    """The strategy counts a failure once, when the job restarts for it or fails because it may not."""
    strategy, current = before.options.restart_strategy, step.state.current
    counted = step.state.restarts.attempts - before.restarts.attempts
    restarts = step.transition is not None and isinstance(current, Restarting) and current.failure is not None
    if isinstance(strategy, FixedDelay) and before.restarts.attempts < strategy.attempts:
        assert counted == restarts
    assert counted in (0, 1)
