"""Requirements that were accepted outlive the death of every process on their way to the job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_adaptive.local.airflow import Component
from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.harness.outcome import Outcome

pytestmark = pytest.mark.timeout(900)

Record = Callable[[str, str, Outcome], None]

LOWER, UPPER = 1, 2


def accept(job: AirflowJob) -> None:
    """Have the REST API accept bounds."""
    bounds = {"job": {"parallelism": {"lowerBound": LOWER, "upperBound": UPPER}}}
    job.airflow.api._request("PUT", f"/adaptive/api/v1/jobs/{job.job}/resource-requirements", bounds)


@pytest.mark.parametrize("component", list(Component), ids=[component.value for component in Component])
def test_accepted_requirements_outlive_a_process(job: AirflowJob, record: Record, component: Component) -> None:
    job.begin(parallelism=1, max_parallelism=UPPER)
    accept(job)
    job.airflow.kill(component)
    job.fault()
    job.airflow.restart(component)
    job.wait_for("the new bounds", lambda: job.xcom("parallelism") == {"job": UPPER} and job.is_in("Executing"))
    job.recover()
    record("requirements accepted, then a process killed (-9)", component.value, job.suspend())


def test_accepted_requirements_outlive_the_driver_and_all_of_airflow(job: AirflowJob, record: Record) -> None:
    job.begin(parallelism=1, max_parallelism=UPPER)
    accept(job)
    for component in Component:
        job.airflow.kill(component)
    job.cluster.kill_driver(job.driver())
    job.fault()
    for component in Component:
        job.airflow.restart(component)
    job.wait_for("the new bounds", lambda: job.xcom("parallelism") == {"job": UPPER} and job.is_in("Executing"))
    job.recover()
    record("requirements accepted, then a process killed (-9)", "all of Airflow, and the driver", job.suspend())
