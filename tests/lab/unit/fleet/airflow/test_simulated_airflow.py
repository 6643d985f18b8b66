"""The real trigger, loop and operator in a simulated Airflow."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.lab.fleet.airflow.tables import TaskState
from tests.lab.fleet.airflow.triggerer import STOP_TIMEOUT_S
from tests.support.fleet.small_fleet import SmallFleet


@pytest.fixture
def fleet():
    fleet = SmallFleet()
    with fleet.installed():
        yield fleet
    assert [failure for triggerer in fleet.airflow.triggerers for failure in triggerer.loop.failures] == []


def task_state(fleet, job):
    return fleet.airflow.scheduler.instance(fleet.airflow.scheduler.tasks[job]).state


def test_two_jobs_start_their_drivers_and_publish_their_state(fleet):
    fleet.start("triggerer-1")
    fleet.run(60)
    assert [fleet.state(job) for job in fleet.jobs] == ["Executing", "Executing"]
    assert [len(drivers.started) for drivers in fleet.drivers] == [1, 1]
    assert [task_state(fleet, job) for job in fleet.jobs] == [TaskState.DEFERRED] * 2


def test_a_request_suspends_one_job_and_its_task_succeeds(fleet):
    fleet.start("triggerer-1")
    fleet.run(30)
    fleet.request("job-1", "suspended")
    fleet.run(30)
    assert [fleet.document(job, "summary")["outcome"] for job in fleet.jobs] == ["SUSPENDED", None]
    assert [task_state(fleet, job) for job in fleet.jobs] == [TaskState.SUCCESS, TaskState.DEFERRED]
    assert fleet.airflow.users.requests[0].accepted_at == pytest.approx(30.1, abs=0.1)


def test_a_loop_that_is_recycled_continues_in_a_new_trigger_with_the_same_driver(fleet):
    fleet.start("triggerer-1", "triggerer-2")
    fleet.run(400)
    assert len(fleet.find("job-1: trigger", "fires recycle")) == 3
    assert [len(drivers.started) for drivers in fleet.drivers] == [1, 1]
    assert [fleet.state(job) for job in fleet.jobs] == ["Executing", "Executing"]


def test_another_triggerer_takes_the_jobs_of_a_killed_triggerer_over(fleet):
    fleet.start("triggerer-1")
    fleet.run(30)
    fleet.process("triggerer-1").kill()
    fleet.start_triggerer("triggerer-2")
    fleet.run(60)
    fleet.request("job-2", "suspended")
    fleet.run(30)
    assert len(fleet.find("triggerer-2 ", "trigger", "starts")) == 2
    assert [len(drivers.started) for drivers in fleet.drivers] == [1, 1]
    assert task_state(fleet, "job-2") is TaskState.SUCCESS


def test_a_triggerer_that_stops_ends_its_loops_and_another_one_continues_at_once(fleet):
    fleet.start("triggerer-1", "triggerer-2")
    fleet.run(30)
    stopping, other = fleet.airflow.triggerers
    stopping.stop()
    fleet.run(5)
    assert not stopping.process.is_alive
    assert len(fleet.find("triggerer-1 has ended")) == 1
    assert fleet.find("triggerer-1 ", "is canceled") == []
    assert fleet.airflow.api.faults.active == []
    fleet.run(30)
    assert other.runs(1)
    assert other.runs(2)
    assert [fleet.state(job) for job in fleet.jobs] == ["Executing", "Executing"]
    assert [len(drivers.started) for drivers in fleet.drivers] == [1, 1]


def test_a_triggerer_whose_trigger_does_not_end_is_killed_some_seconds_after_the_signal(fleet):
    fleet.start("triggerer-1")
    fleet.run(30)
    (triggerer,) = fleet.airflow.triggerers

    async def endless():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    triggerer.loop.create_task(endless())
    fleet.run(1)
    triggerer.stop()
    fleet.run(STOP_TIMEOUT_S - 1)
    assert triggerer.process.is_alive
    fleet.run(2)
    assert not triggerer.process.is_alive


def test_a_frozen_triggerer_ends_its_duplicates_when_it_is_resumed(fleet):
    fleet.start("triggerer-1", "triggerer-2")
    fleet.run(30)
    runner = fleet.process("triggerer-1")
    runner.freeze()
    fleet.run(60)
    runner.resume()
    fleet.run(60)
    assert fleet.find("triggerer-1 ", "is canceled") != []
    assert [task_state(fleet, job) for job in fleet.jobs] == [TaskState.DEFERRED] * 2
    assert [len(drivers.started) for drivers in fleet.drivers] == [1, 1]


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.SUCCESS])
def test_a_task_that_a_user_ends_cancels_its_job(fleet, state):
    fleet.start("triggerer-1")
    fleet.run(30)
    fleet.airflow.users.end_task("job-1", state)
    fleet.run(60)
    assert task_state(fleet, "job-1") is state
    assert fleet.document("job-1", "summary")["outcome"] == "CANCELED"
    assert fleet.state("job-2") == "Executing"


def test_a_task_that_a_user_clears_runs_again_and_adopts_the_driver(fleet):
    fleet.start("triggerer-1")
    fleet.run(30)
    fleet.airflow.users.clear_task("job-1")
    fleet.run(60)
    assert task_state(fleet, "job-1") is TaskState.DEFERRED
    assert len(fleet.drivers[0].started) == 1
    assert fleet.document("job-1", "summary")["outcome"] is None


def test_a_job_that_fails_is_retried_with_a_new_attempt():
    fleet = SmallFleet(restart_strategy="none")
    with fleet.installed():
        fleet.start("triggerer-1", retries=1)
        fleet.run(30)
        fleet.drivers[0].fail_query()
        fleet.run(60)
    assert fleet.find("job-1: task up_for_retry") != []
    assert task_state(fleet, "job-1") is TaskState.DEFERRED
    assert fleet.state("job-1") == "Executing"


def test_a_database_that_hangs_delays_requests_only(fleet):
    fleet.start("triggerer-1")
    fleet.run(30)
    end = fleet.airflow.api.faults.hang()
    fleet.request("job-1", "suspended")
    fleet.run(120)
    assert fleet.document("job-1", "summary")["outcome"] is None
    end()
    fleet.run(120)
    assert fleet.document("job-1", "summary")["outcome"] == "SUSPENDED"
    assert fleet.state("job-2") == "Executing"


def test_a_store_that_airflow_empties_is_filled_again(fleet):
    fleet.start("triggerer-1")
    fleet.request("job-1", "running")
    fleet.run(30)
    fleet.airflow.users.empty_store("job-1")
    fleet.run(120)
    assert fleet.state("job-1") == "Executing"
    assert fleet.document("job-1", "restored_requests")["desired_state"]["value"] == "running"
