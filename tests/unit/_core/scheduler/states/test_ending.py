"""The end of a job: StopWithSavepoint in every order of savepoint, failure and end of the driver; Canceling, Failing and Finished."""

from typing import Any

import pytest

from airflow_adaptive._core.scheduler.state import Restarting
from airflow_adaptive._core.scheduler.steps import KillDriver
from tests.lab.scenario import HOPELESS, UNENDED, Scenario

KILLED_LATE = KillDriver(epoch=1, submission_id=None, cause="TimerFired")


def canceling() -> Scenario:
    return Scenario().given_executing(2).when_canceled().then("Canceling")


def failing() -> Scenario:
    return Scenario().given_executing(2).when_query_failed(HOPELESS).then("Failing")


def test_failed_when_the_driver_is_gone():
    job = failing().when_driver_ended().then("Finished", reason="failed: SyntaxError: invalid syntax")
    job.then_outcome("FAILED")


@pytest.mark.parametrize("ending", [canceling, failing])
def test_driver_that_does_not_stop_is_killed_until_it_is_gone(ending):
    job = ending().after(60)
    state = job.state.name
    job.then(state, KILLED_LATE).after(59).then(state).after(1).then(state, KILLED_LATE)


@pytest.mark.parametrize("ending", [canceling, failing])
def test_suspend_is_ignored_during_the_end(ending):
    job = ending()
    state = job.state.name
    job.when_suspended().then(state, reason="SuspendRequested ignored")


def test_finished_job_waits_for_its_driver_to_be_gone():
    job = Scenario().given_deploying(2).when_canceled()
    job.then("Finished", KillDriver(epoch=1, submission_id=None, cause="CancelRequested"))
    job.after(60).then("Finished", KILLED_LATE).when_driver_ended().then("Finished", reason="the driver has ended")
    job.after(10**6).then("Finished")


def test_finished_is_the_end():
    job = Scenario().given_executing(2).when_completed().then("Finished").then_outcome("FINISHED")
    job.when_slots(free=4).when_requirements(1, 2).when_query_failed().when_canceled()
    job.when_suspended().then("Finished").then_outcome("FINISHED")


def stopping(**options: Any) -> Scenario:
    return Scenario(**options).given_executing(2).when_suspended().then("StopWithSavepoint")


def test_suspended_when_the_queries_stopped_and_the_driver_is_gone():
    job = stopping().when_savepoint_completed().then("StopWithSavepoint", reason="all queries stopped")
    job.when_driver_ended().then("Finished", reason="stopped at a batch boundary").then_outcome("SUSPENDED")


def test_runs_on_when_the_queries_could_not_be_stopped():
    job = stopping().after(20).when_savepoint_failed().then("Executing", reason="continue to run")
    job.when_slots(held=2, free=2).after(29).then("Executing").after(1).then("Deploying")


def test_failure_is_decided_on_when_the_stop_has_failed():
    job = stopping().when_query_failed().then("StopWithSavepoint", reason="the stop continues")
    job.when_savepoint_failed().then("Restarting", reason="TASK_FAILED: an executor was lost")
    assert job.state.restarts.attempts == 1


def test_failure_is_decided_on_when_the_stop_has_succeeded():
    job = stopping().when_query_failed().when_savepoint_completed()
    job.then("Restarting", reason="SAVEPOINT_WITHOUT_STOP: the savepoint exists but the job could not be stopped")


def test_first_failure_is_the_root():
    job = stopping().when_query_failed(HOPELESS).when_query_failed().when_savepoint_failed()
    job.then("Failing", reason="not recoverable: SyntaxError")


def test_failure_after_the_savepoint_keeps_its_causes():
    stopping().when_savepoint_completed().when_query_failed(HOPELESS).then("Failing", reason="not recoverable")
    job = stopping().when_savepoint_completed().when_query_failed().then("Restarting")
    assert isinstance(job.state.current, Restarting)
    assert job.state.current.failure is not None
    assert job.state.current.failure.causes == ("TASK_FAILED",)


def test_driver_that_ends_before_the_savepoint_has_failed():
    stopping().when_driver_ended().then("Restarting", reason="an executor was lost")
    remembered = stopping().when_query_failed(HOPELESS).when_driver_ended()
    remembered.then("Finished", reason="SyntaxError").then_outcome("FAILED")


def test_job_whose_batch_does_not_end_is_suspended_without_a_failure():
    job = (
        stopping()
        .when_driver_ended(UNENDED)
        .then("Finished", reason="did not end within 20 s")
        .then_outcome("SUSPENDED")
    )
    assert job.state.failures == ()
    remembered = stopping().when_query_failed(HOPELESS).when_driver_ended(UNENDED)
    remembered.then("Finished", reason="SyntaxError").then_outcome("FAILED")


def test_suspend_that_is_requested_again_after_a_failure_is_followed():
    stopping().when_driver_ended().when_suspended().then("Finished").then_outcome("SUSPENDED")


def test_driver_that_does_not_stop_in_time_is_killed_and_the_job_suspended():
    job = stopping().after(59.9).then("StopWithSavepoint").after(0.1).then("StopWithSavepoint", KILLED_LATE)
    job.after(60).then("StopWithSavepoint", KILLED_LATE)
    job.when_driver_ended().then("Finished", reason="killed after stop_timeout").then_outcome("SUSPENDED")


def test_driver_that_stopped_but_does_not_end_is_killed():
    job = stopping().when_savepoint_completed().after(60).then("StopWithSavepoint", KILLED_LATE)
    job.when_driver_ended().then("Finished", reason="stopped at a batch boundary")


def test_silent_driver_is_killed_and_handled_as_a_failure():
    killed = KillDriver(epoch=1, submission_id=None, cause="DriverHeartbeatTimedOut")
    stopping().when_driver_silent().then("Restarting", killed)


def test_heartbeat_timeout_after_the_savepoint_is_ignored():
    stopping().when_savepoint_completed().when_driver_silent().then(
        "StopWithSavepoint", reason="DriverHeartbeatTimedOut ignored"
    )


def test_desired_states_and_the_end_of_the_input_are_followed():
    stopping().when_canceled().then("Canceling")
    stopping().when_completed().then("Finished").then_outcome("FINISHED")
    stopping().when_suspended().then("StopWithSavepoint", reason="SuspendRequested ignored")


def test_changes_are_recorded_without_a_transition():
    stopping().when_slots(held=2, free=2).when_requirements(1, 2).when_committed().then("StopWithSavepoint")
