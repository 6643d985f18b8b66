"""The DAG's file is broken, removed or changed while the job runs, for longer than the trigger lives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.faults.airflow.airflow_job import LIFETIME_S, AirflowJob
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


EMPTY_DAG = """
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("{dag}", schedule=None):
    EmptyOperator(task_id="other")
"""


def replace_driver(job: AirflowJob) -> None:
    """The driver dies, and a loop must replace it."""
    epoch = job.epoch()
    job.cluster.kill_driver(job.driver())
    job.wait_for("the next driver", lambda: job.epoch() == epoch + 1 and job.is_in("Executing"))


def test_broken_file(job: AirflowJob, record: Record) -> None:
    job.begin(trigger_lifetime=LIFETIME_S)
    file = job.dags / f"{job.dag}.py"
    text, owner = file.read_text(), job.owner()
    file.write_text("with DAG(")
    job.fault()
    job.wait_task("up_for_reschedule")
    replace_driver(job)
    job.recover()
    file.write_text(text)
    job.wait_loop(owner)
    record(
        "DAG file broken", "for longer than the lifetime of the trigger; the driver dies in the meantime", job.suspend()
    )


def test_removed_file(job: AirflowJob, record: Record) -> None:
    stale = f"SELECT is_stale FROM dag WHERE dag_id = '{job.dag}'"
    job.begin(trigger_lifetime=LIFETIME_S)
    file = job.dags / f"{job.dag}.py"
    text = file.read_text()
    file.unlink()
    job.fault()
    job.wait_for("Airflow to notice", lambda: job.database(stale) == [(1,)])
    job.wait_task("up_for_reschedule")
    replace_driver(job)
    job.recover()
    owner = job.owner()
    file.write_text(text)
    job.wait_loop(owner)
    record(
        "DAG file removed, put back",
        "for longer than the lifetime of the trigger; the driver dies in the meantime",
        job.suspend(),
    )


def test_task_that_is_away_from_the_file_for_a_while(job: AirflowJob, record: Record) -> None:
    """Airflow removes the task at once, and with it the job; another run goes on with it."""
    job.begin()
    file = job.dags / f"{job.dag}.py"
    text = file.read_text()
    file.write_text(EMPTY_DAG.format(dag=job.dag))
    job.fault()
    job.wait_for("the end of the driver", lambda: not job.cluster.state()["activedrivers"])
    assert job.task_state() == "removed"
    file.write_text(text)
    job.wait_for("the task", lambda: job.airflow.api._find(f"/api/v2/dags/{job.dag}/tasks/job"))
    job.start()
    job.recover()
    record("DAG file changed", "the task is removed from the DAG and added again", job.suspend())


def test_changed_file(job: AirflowJob, record: Record) -> None:
    """The next slice takes the bounds, and replaces the driver by one with the changed script."""
    job.begin(trigger_lifetime=LIFETIME_S)
    marker = job.root / "second"
    job.script.write_text(f"open({str(marker)!r}, 'w').close()\n{job.script.read_text()}")
    job.deploy(trigger_lifetime=LIFETIME_S, parallelism=(1, 2))
    job.fault()
    job.wait_for("the new bounds", lambda: job.xcom("parallelism") == {"job": 2} and job.is_in("Executing"))
    job.recover()
    assert (job.epoch(), marker.exists()) == (2, True)
    record("DAG file changed", "other bounds and another script, between two triggers", job.suspend())
