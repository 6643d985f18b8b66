"""Created: start, or end before anything ran."""

from airflow_adaptive._core.scheduler.commands import SubmitDriver
from airflow_adaptive._core.scheduler.events import SchedulingStarted
from tests.lab.scenario import Scenario


def test_scheduling_waits_for_resources_when_started():
    job = Scenario().given_waiting().then("WaitingForResources")
    assert "scheduling started" in job.reasons


def test_started_job_deploys_at_once_when_all_was_there_before():
    job = Scenario().when_slots(free=4)
    job.when(SchedulingStarted(at=job.now))
    job.then("Deploying", SubmitDriver(epoch=1, slots=4, cause="TimerFired"))


def test_end_comes_at_once_when_nothing_runs():
    Scenario().when_canceled().then("Finished").then_outcome("CANCELED")
    Scenario().when_suspended().then("Finished").then_outcome("SUSPENDED")
    Scenario().when_query_failed().then("Finished", reason="an executor was lost").then_outcome("FAILED")


def test_start_is_ignored_when_started_already():
    job = Scenario().given_waiting()
    job.when(SchedulingStarted(at=job.now)).then("WaitingForResources", reason="SchedulingStarted ignored")
