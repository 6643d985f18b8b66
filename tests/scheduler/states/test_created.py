"""Created: start, or end before anything ran."""

from dataclasses import replace

from airflow_adaptive.scheduler.commands import KillDriver, SubmitDriver
from airflow_adaptive.scheduler.events import SchedulingStarted
from airflow_adaptive.scheduler.state import Driver
from airflow_adaptive.testing.scenario import Scenario

OLD_DRIVER = Driver(epoch=7, submission_id="driver-7", running=True)


def beside_old_driver() -> Scenario:
    job = Scenario()
    job.state = replace(job.state, epoch=7, driver=OLD_DRIVER)
    return job.when(SchedulingStarted(at=job.now))


def test_scheduling_waits_for_resources_when_started():
    job = Scenario().given_waiting().then("WaitingForResources")
    assert "scheduling started" in job.reasons


def test_started_job_deploys_at_once_when_all_was_there_before():
    job = Scenario().when_slots(free=4)
    job.when(SchedulingStarted(at=job.now))
    job.then("Deploying", SubmitDriver(epoch=1, slots=4, cause="TimerFired"))


def test_old_driver_is_killed_before_anything_starts():
    killed = KillDriver(epoch=7, submission_id="driver-7", cause="SchedulingStarted")
    beside_old_driver().then("Restarting", killed, reason="earlier life must end first")


def test_old_driver_is_killed_again_until_it_is_gone():
    job = beside_old_driver().when_slots(free=4)
    job.then("Restarting", KillDriver(epoch=7, submission_id="driver-7", cause="SchedulingStarted"))
    job.after(60).then("Restarting", KillDriver(epoch=7, submission_id="driver-7", cause="TimerFired"))
    job.when_driver_ended().then("Deploying", SubmitDriver(epoch=8, slots=4, cause="TimerFired"))
    assert job.state.num_restarts == 0


def test_job_gives_up_waiting_when_only_its_earlier_life_has_run():
    job = beside_old_driver().when_driver_ended()
    job.then("WaitingForResources", KillDriver(epoch=7, submission_id="driver-7", cause="SchedulingStarted"))
    job.after(300).then("Finished").then_outcome("FAILED")


def test_end_comes_at_once_when_nothing_runs():
    Scenario().when_canceled().then("Finished").then_outcome("CANCELED")
    Scenario().when_suspended().then("Finished").then_outcome("SUSPENDED")
    Scenario().when_query_failed().then("Finished", reason="an executor was lost").then_outcome("FAILED")


def test_start_is_ignored_when_started_already():
    job = Scenario().given_waiting()
    job.when(SchedulingStarted(at=job.now)).then("WaitingForResources", reason="SchedulingStarted ignored")
