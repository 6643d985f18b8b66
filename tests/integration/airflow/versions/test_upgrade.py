"""Airflow is upgraded and downgraded in the middle of a running job."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import no_driver_runs
from tests.support.airflow.airflow_of_versions import NEWEST, TIMEOUT_S, CopyJob, create_airflow, drivers, python_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

KEPT = ("requirements", "rescales", "restarts")
"""Fields of a job that no change of Airflow changes."""


@pytest.mark.parametrize("versions", [("3.2.2", NEWEST), ("3.1.8", "3.2.2"), (NEWEST, "3.2.2")], ids=" to ".join)
def test_job_keeps_bounds_history_driver_and_rows_when_the_version_of_airflow_changes(
    versions: tuple[str, str], spark_cluster: LocalCluster, spark_connection: dict[str, str], tmp_path: Path
) -> None:
    before, after = versions
    interpreter = python_of(after)
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    spark_cluster.add_worker(cores=1, memory_mb=1024)
    with create_airflow(tmp_path, before, spark_connection) as airflow:
        job = CopyJob(airflow, tmp_path, "first")
        job.begin()
        job.until_executing(2)
        job.until_row_passes()
        job.until_displayed("Executing", 2)
        job.require(1, 1)
        earlier = job.until_displayed("Executing", 1)
        job.until_row_passes()
        started = drivers(spark_cluster)

        airflow.stop()
        if before > after:
            airflow.command("db", "downgrade", "--to-version", after, "--yes")
        airflow.python = interpreter
        airflow.start()
        later = job.until_displayed("Executing", 1)
        job.until_row_passes()
        assert [later[key] for key in KEPT] == [earlier[key] for key in KEPT]
        assert drivers(spark_cluster) == started
        job.require(2, 2)
        job.until_displayed("Executing", 2)
        job.post("cancel")
        job.until_task("failed")
        wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the end of the driver")
        assert job.rows() == job.expected_rows
