"""A job of a `@continuous` DAG: as soon as one run has ended, Airflow begins the next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

CONTINUOUS = {"schedule": "@continuous", "start_date": datetime(2026, 1, 1, tzinfo=UTC), "max_active_runs": 1}

ENDS: dict[str, Callable[[AirflowJob], None]] = {
    "the job is suspended": lambda job: job.desired_state("suspended"),
    "the DAG run is marked failed": lambda job: job.mark_run("failed"),
}


def wait_run(job: AirflowJob) -> None:
    """Airflow has begun another run."""
    before, newest = job.run_id, "/dagRuns?order_by=-run_after&limit=1"

    def begun() -> str | None:
        return next((run["dag_run_id"] for run in job.request("GET", newest)["dag_runs"]), before)

    job.run_id = str(job.wait_for("another run", lambda: begun() if begun() != before else None))


@pytest.mark.parametrize("end", ENDS)
def test_next_run_goes_on_with_the_job(job: AirflowJob, record: Record, end: str) -> None:
    """Its task begins while the driver of the run before is still being stopped."""
    job.deploy(dag_options=CONTINUOUS)
    job.wait_for("the DAG", lambda: job.airflow.api.has_dag(job.dag))
    job.pause(False)
    wait_run(job)
    job.run_well()
    attempt = job.xcom("attempt")
    ENDS[end](job)
    job.fault()
    wait_run(job)
    job.wait_for("the next attempt's loop", lambda: job.owner().partition("#")[0] not in ("", attempt))
    job.recover()
    assert (job.try_number(), job.task_state()) == (1, "deferred")
    job.pause(True)
    job.set_state("failed")
    record("consecutive runs of a `@continuous` DAG", end, job.outcome())
