"""Canceling, Failing, Finished: the driver is stopped, killed, seen to be gone; nothing leads back."""

import pytest

from airflow_adaptive._core.scheduler.commands import KillDriver
from tests.lab.scenario import HOPELESS, Scenario

KILLED_LATE = KillDriver(epoch=1, submission_id=None, cause="TimerFired")


def canceling() -> Scenario:
    return Scenario().given_executing(2).when_canceled().then("Canceling")


def failing() -> Scenario:
    return Scenario().given_executing(2).when_query_failed(HOPELESS).then("Failing")


def test_canceled_when_the_driver_is_gone():
    canceling().when_driver_ended().then("Finished").then_outcome("CANCELED")


def test_failed_when_the_driver_is_gone():
    job = failing().when_driver_ended().then("Finished", reason="failed: SyntaxError: invalid syntax")
    job.then_outcome("FAILED")


@pytest.mark.parametrize("ending", [canceling, failing])
def test_driver_that_does_not_stop_is_killed_until_it_is_gone(ending):
    job = ending().after(60)
    state = job.state.name
    job.then(state, KILLED_LATE).after(59).then(state).after(1).then(state, KILLED_LATE)


@pytest.mark.parametrize("ending", [canceling, failing])
def test_failures_are_ignored(ending):
    job = ending()
    state = job.state.name
    job.when_query_failed().when_driver_silent().when_completed().when_savepoint_failed().then(state)


@pytest.mark.parametrize("ending", [canceling, failing])
def test_suspend_is_ignored_during_the_end(ending):
    job = ending()
    state = job.state.name
    job.when_suspended().then(state, reason="SuspendRequested ignored")


def test_cancel_turns_failing_into_canceling():
    failing().when_canceled().then("Canceling").when_driver_ended().then("Finished").then_outcome("CANCELED")


def test_cancel_is_ignored_when_canceling():
    canceling().when_canceled().then("Canceling", reason="CancelRequested ignored")


def test_finished_job_waits_for_its_driver_to_be_gone():
    job = Scenario().given_deploying(2).when_canceled()
    job.then("Finished", KillDriver(epoch=1, submission_id=None, cause="CancelRequested"))
    job.after(60).then("Finished", KILLED_LATE).when_driver_ended().then("Finished", reason="the driver has ended")
    job.after(10**6).then("Finished")


def test_finished_is_the_end():
    job = Scenario().given_executing(2).when_completed().then("Finished").then_outcome("FINISHED")
    job.when_slots(free=4).when_requirements(1, 2).when_query_failed().when_canceled()
    job.when_suspended().then("Finished").then_outcome("FINISHED")
