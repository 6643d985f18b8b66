"""RestartingLocally: recovered, hopeless, too late, below the minimum."""

from datetime import timedelta
from typing import Any

from airflow_adaptive._core.scheduler.commands import KillDriver
from airflow_adaptive._core.scheduler.events import TimerFired, TimerName
from tests.lab.scenario import HOPELESS, Scenario


def recovering(**options: Any) -> Scenario:
    """One of four slots is lost, and may come back."""
    job = Scenario(**options).given_executing(4).when_slots(held=3, free=1)
    return job.then("RestartingLocally")


def test_recovers_when_the_slots_are_back():
    job = recovering().after(20).when_slots(held=4).then("Executing", reason="recovered locally").then_parallelism(4)
    assert (job.state.num_restarts, job.state.restarts.attempts) == (0, 0)


def test_plans_again_at_once_when_the_slots_cannot_come_back():
    job = Scenario().given_executing(4).when_slots(held=3)
    job.then("Deploying", reason="the lost slots cannot come back: {'job': 4} -> {'job': 3}").then_parallelism(3)
    assert job.path[-3:] == ["RestartingLocally", "Restarting", "Deploying"]
    assert job.state.restarts.attempts == 0


def test_plans_again_when_the_missing_slots_can_no_longer_arrive():
    job = (
        recovering()
        .after(20)
        .when_slots(held=2, free=2)
        .then("RestartingLocally", reason="the job holds 2 of 4 slot(s)")
    )
    job.when_slots(held=2).then("Deploying").then_parallelism(2)


def test_plans_again_with_what_is_held_when_it_takes_too_long():
    job = recovering().after(59.9).then("RestartingLocally").after(0.1)
    job.then("Deploying", reason="the lost slots did not come back in time: {'job': 4} -> {'job': 3}")


def test_plans_again_with_free_slots_when_the_lost_ones_cannot_come_back():
    job = Scenario().given_executing(4).when_slots(held=2, free=1).then("Deploying").then_parallelism(3)
    job.when_slots(held=3).when_plan_activated().then("Executing")


def test_stops_and_waits_when_what_is_left_is_below_the_minimum():
    job = Scenario(lower=3).given_executing(4).when_slots(held=2)
    job.then("Restarting", reason="the lost slots cannot come back: have 2 slot(s), need at least 3")
    job.when_driver_ended().then("WaitingForResources").after(10**6).then("WaitingForResources")


def test_stops_and_waits_when_what_is_held_in_time_is_below_the_minimum():
    job = Scenario(lower=3).given_executing(4).when_slots(held=2, free=2).after(60)
    job.then("Restarting", reason="did not come back in time: have 2 slot(s), need at least 3")


def test_requirements_take_effect_after_the_local_recovery():
    job = recovering(scaling_interval_min=0, max_trigger_delay=0).when_requirements(1, 2).then("RestartingLocally")
    job.when_slots(held=4).then("Deploying").then_parallelism(2)


def test_failed_query_goes_to_failure_handling():
    job = recovering().when_query_failed().then("Restarting")
    assert job.state.restarts.attempts == 1


def test_lost_driver_goes_to_failure_handling():
    recovering().when_driver_ended().then("Restarting")
    recovering().when_driver_silent().then(
        "Restarting", KillDriver(epoch=1, submission_id=None, cause="DriverHeartbeatTimedOut")
    )
    recovering().when_query_failed(HOPELESS).then("Failing")


def test_desired_states_and_the_end_of_the_input_are_followed():
    recovering().when_canceled().then("Canceling")
    recovering().when_suspended().then("StopWithSavepoint")
    recovering().when_completed().then("Finished").then_outcome("FINISHED")


def test_reason_names_what_the_runtime_knows_about_slots_that_do_not_come_back():
    job = Scenario(local_recovery_timeout=10).given_executing(4).when_slots(held=2, free=2)
    job.now += timedelta(seconds=10)
    timer = TimerFired(at=job.now, timer=TimerName.LOCAL_RECOVERY, version=job.state.version, explanation="no image")
    job.apply_without_timers(timer)
    assert "the lost slots did not come back in time; no image: " in job.reason
