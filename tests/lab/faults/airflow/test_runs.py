"""People end, clear, pause and delete what runs the job, between two slices of its task as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import LIFETIME_S, AirflowJob, still
from tests.lab.faults.harness.outcome import Outcome
from tests.lab.faults.harness.watched_job import TIMEOUT_S

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


def end_and_delete_run(job: AirflowJob) -> None:
    """Airflow refuses to delete one that runs."""
    job.mark_run("failed")
    job.delete_run()


ENDS: dict[str, Callable[[AirflowJob], None]] = {
    "the task is marked failed": lambda job: job.set_state("failed"),
    "the task is marked success": lambda job: job.set_state("success"),
    "the DAG run is marked failed": lambda job: job.mark_run("failed"),
    "the DAG run is marked failed and deleted": end_and_delete_run,
    "the DAG is deleted, but not its file": lambda job: job.request("DELETE", ""),
}


END_S = 180.0
"""Longest time until a user's action has ended the driver: 30 s, and more on a busy machine."""


def wait_driver_gone(job: AirflowJob) -> None:
    job.wait_for("the end of the driver", lambda: not job.cluster.state()["activedrivers"], END_S)


@pytest.mark.parametrize("end", ENDS)
def test_job_that_is_ended_and_goes_on_in_another_run(job: AirflowJob, record: Record, end: str) -> None:
    job.begin()
    ENDS[end](job)
    job.fault()
    wait_driver_gone(job)
    job.start()
    job.recover()
    record("the job is ended and started again", end, job.suspend())


@pytest.mark.parametrize("state", ["scheduled", "running"])
def test_task_that_is_marked_failed_between_two_slices(job: AirflowJob, record: Record, state: str) -> None:
    """The trigger has fired and is gone, and no worker receives its event: `on_kill` is not called."""
    job.begin(trigger_lifetime=LIFETIME_S)
    job.wait_loop(job.owner())
    if state == "scheduled":
        with still(job.airflow._processes[Component.SCHEDULER]):
            job.wait_task(state)
            job.set_state("failed")
            job.fault()
            wait_driver_gone(job)
    else:
        job.hold.touch()
        job.wait_task(state)
        job.set_state("failed")
        job.fault()
        wait_driver_gone(job)
        job.hold.unlink()
    job.deploy()
    job.start()
    job.recover()
    record("the job is ended and started again", f"between two triggers, while the task is {state}", job.suspend())


def test_job_that_is_cleared(job: AirflowJob, record: Record) -> None:
    job.begin()
    owner = job.owner()
    job.clear()
    job.fault()
    job.wait_loop(owner)
    job.recover()
    assert (job.epoch(), job.task_state()) == (1, "deferred")
    record("the task is cleared", "while the job runs", job.suspend())


def test_job_that_failed_is_tried_again(job: AirflowJob, record: Record) -> None:
    job.begin(restart_strategy="none", retries=1, retry_delay=timedelta(seconds=1))
    job.cluster.kill_driver(job.driver())
    job.fault()
    job.wait_for("the next try", lambda: job.try_number() == 2)
    job.recover()
    assert (job.epoch(), job.task_state()) == (2, "deferred")
    record("the task fails and is retried", "the driver is killed, with the restart strategy none", job.suspend())


def test_job_that_is_suspended_between_two_tries_starts_no_driver(job: AirflowJob, record: Record) -> None:
    job.begin(restart_strategy="none", retries=1, retry_delay=timedelta(seconds=30))
    job.cluster.kill_driver(job.driver())
    job.wait_task("up_for_retry")
    job.airflow.api.suspend_job(job.job)
    job.fault()
    job.wait_task("success")
    assert (job.try_number(), job.epoch()) == (2, 1)
    job.start()
    job.recover()
    record("the task fails and is retried", "a user suspends the job before the next try", job.suspend())


def test_paused_dag_does_not_stop_its_job(job: AirflowJob, record: Record) -> None:
    """A task of a paused DAG that has been deferred does not come back from there before the DAG goes on."""
    job.begin(trigger_lifetime=LIFETIME_S)
    job.pause(True)
    job.wait_task("scheduled")
    owner = job.owner()
    job.cluster.kill_driver(job.driver())
    job.fault()
    job.wait_for("the next driver", lambda: job.epoch() == 2 and job.is_in("Executing"))
    job.recover()
    assert (job.owner(), job.task_state()) == (owner, "scheduled")
    job.pause(False)
    job.wait_loop(owner)
    record(
        "the DAG is paused",
        "for longer than the lifetime of the trigger; the driver dies in the meantime",
        job.suspend(),
    )


def test_execution_timeout_holds_across_triggers(job: AirflowJob, record: Record) -> None:
    limit_s = 150  # A driver of a busy machine starts within two minutes.
    job.deploy(trigger_lifetime=LIFETIME_S, execution_timeout=timedelta(seconds=limit_s))
    started = time.monotonic()
    job.start()
    job.wait_task("deferred")
    deferred = time.monotonic()
    job.run_well()
    assert job.wait_loop(job.owner())
    job.wait_task("failed")
    assert started + limit_s < time.monotonic() < deferred + limit_s + 60
    assert "was canceled after execution_timeout" in job.task_log()
    job.fault()
    wait_driver_gone(job)
    job.deploy()
    job.start()
    job.recover()
    record("`execution_timeout` passes", "after several triggers", job.suspend())


def test_second_dag_may_not_run_the_job_of_the_first(job: AirflowJob, record: Record) -> None:
    first, second = (f"{job.job}_{letter}" for letter in "ab")
    for dag in (first, second):
        job.deploy(dag, retries=2, retry_delay=timedelta(seconds=1))
    run = job.start(first)
    job.run_well()
    refused = job.start(second)
    job.fault()
    api = job.airflow.api
    job.wait_for("the refusal", lambda: api.task_state(second, refused, "job") == "failed")
    assert f"belongs to task '{first}/job'" in api.task_log(second, refused, "job")
    assert api.try_number(second, refused, "job") == 1
    job.dag, job.run_id = first, run
    job.recover()
    assert (job.epoch(), job.task_state()) == (1, "deferred")
    record("two DAGs run one job", "the second is refused", job.suspend())


def test_xcoms_of_a_restless_job_stay_small(job: AirflowJob, record: Record) -> None:
    job.begin(scaling_interval_min=0, executing_stabilization_timeout=0)
    job.fault()
    started, upper = time.monotonic(), 1
    while len(job.xcom("transitions")) < 50:
        upper = 3 - upper
        job.require(upper, upper)
        job.wait_for("the rescale", lambda n=upper: job.xcom("parallelism") == {"job": n} and job.is_in("Executing"))  # type: ignore[misc]
        assert time.monotonic() - started < 3 * TIMEOUT_S
    job.recover()
    sizes = f"SELECT sum(length(value)) FROM xcom WHERE dag_id = '{job.dag}' AND run_id = '{job.run_id}'"
    ((size,),) = job.database(sizes)
    assert size < 64 << 10
    record("many transitions", "more than the XComs contain; all XComs stay under 64 KiB", job.suspend())


def test_worker_that_is_to_report_a_suspension_is_killed(job: AirflowJob, record: Record) -> None:
    """The next try reports the stop, and does not run the job again."""
    job.begin(retries=3, retry_delay=1.0)
    epoch = job.epoch()
    job.hold.touch()
    job.desired_state("suspended")
    job.wait_for("Finished", lambda: job.is_in("Finished"))
    job.wait_task("running")
    job.fault()
    job.kill_workers()
    job.hold.unlink()
    job.wait_task("success")
    assert (job.try_number(), job.epoch()) == (2, epoch)
    job.start()
    job.recover()
    record("Airflow's worker killed (-9)", "before it reports the suspension", job.suspend())
