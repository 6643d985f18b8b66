"""`airflow db clean` removes old rows, whether or not they are in use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import AirflowJob, still
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]


def clean(job: AirflowJob, table: str) -> None:
    """Remove what is older than this moment, and what depends on it; from all tables it would be the components, too."""
    before = ("--clean-before-timestamp", datetime.now(UTC).isoformat(), "--skip-archive", "--yes")
    assert job.command("db", "clean", "--tables", table, *before).wait() == 0


@pytest.mark.parametrize("meanwhile", ["", ", while the scheduler is frozen"], ids=["", "frozen scheduler"])
def test_live_trigger_that_is_cleaned_away(job: AirflowJob, record: Record, meanwhile: str) -> None:
    """Airflow loses the task instance as well, and creates it again: a new attempt, which adopts the driver."""
    job.begin()
    attempt = job.xcom("attempt")
    job.fault()
    with still(job.airflow._processes[Component.SCHEDULER]) if meanwhile else nullcontext():
        clean(job, "trigger")
        if meanwhile:
            job.wait_for("the end of the trigger", lambda: "is not canceled" in job.trigger_logs())
    job.wait_for("another attempt", lambda: job.xcom("attempt") not in (None, attempt))
    job.wait_for("its loop", lambda: job.owner().startswith(job.xcom("attempt")))
    job.recover()
    assert job.epoch() == 1
    record("`airflow db clean`", f"the row of the trigger, with the task instance{meanwhile}", job.suspend())


def test_live_run_that_is_cleaned_away(job: AirflowJob, record: Record) -> None:
    """Airflow does not create the task instance again: the job ends, and another run continues it."""
    job.begin()
    clean(job, "dag_run")
    job.fault()
    job.wait_for("the end of the driver", lambda: not job.cluster.state()["activedrivers"])
    job.start()
    job.recover()
    record("`airflow db clean`", "the row of the DAG run, with all rows that depend on it", job.suspend())
