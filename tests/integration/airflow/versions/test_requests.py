"""Accepted requests survive what users and operators do, beside other backends of XComs and of secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest
from cryptography.fernet import Fernet

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import no_driver_runs
from tests.support.airflow.airflow_of_versions import NEWEST, TASK, TIMEOUT_S, CopyJob, create_airflow, drivers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

BOUNDS = {"job": {"lower": 1, "upper": 1}}

SECRETS = dedent(
    """
    from airflow.secrets import BaseSecretsBackend


    class Unavailable(BaseSecretsBackend):
        def get_variable(self, key, team_name=None):
            raise RuntimeError("the secrets backend does not answer")
    """
)


@pytest.mark.parametrize("version", ["3.1.8", "3.2.2", NEWEST])
def test_accepted_bounds_survive_a_cleaned_database_a_new_run_and_a_new_fernet_key(
    version: str, spark_cluster: LocalCluster, spark_connection: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "secrets_of_a_user.py").write_text(SECRETS)
    first_key, second_key = (Fernet.generate_key().decode() for _ in range(2))
    config = {
        "core": {
            "fernet_key": first_key,
            "xcom_backend": "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend",
        },
        "common.io": {"xcom_objectstorage_path": f"file://{tmp_path}/xcoms", "xcom_objectstorage_threshold": "0"},
        "secrets": {"backend": "secrets_of_a_user.Unavailable"},
    }
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    spark_cluster.add_worker(cores=1, memory_mb=1024)
    env = spark_connection | {"PYTHONPATH": str(tmp_path)}
    with create_airflow(tmp_path, version, env, config) as airflow:
        job = CopyJob(airflow, tmp_path, "first")
        job.begin()
        job.until_displayed("Executing", 2)
        job.require(1, 1)
        job.until_displayed("Executing", 1)
        started = drivers(spark_cluster)
        assert any((tmp_path / "xcoms").rglob("*")), "the XComs of the task are in the object storage"

        # With the trigger, Airflow deletes the task instance, which it then starts again.
        before = ("--clean-before-timestamp", datetime.now(UTC).isoformat(), "--skip-archive", "--yes")
        airflow.command("db", "clean", "--tables", "trigger,xcom", *before)
        wait_until(lambda: job.task_state == "deferred", TIMEOUT_S, "the loop after the clean")
        assert job.until_displayed("Executing", 1)["requirements"] == BOUNDS
        job.until_row_passes()
        assert drivers(spark_cluster) == started

        airflow.stop()
        airflow.configure({"core": {"fernet_key": f"{second_key},{first_key}"}})
        airflow.start()
        assert job.until_displayed("Executing", 1)["requirements"] == BOUNDS
        assert job.displayed()["problem"] is None

        airflow.api.clear_task(job.name, job.run_id, TASK)
        wait_until(lambda: job.task_state == "deferred", TIMEOUT_S, "the loop after the clear")
        assert job.until_displayed("Executing", 1)["requirements"] == BOUNDS
        job.until_row_passes()

        job.post("suspend")
        job.until_task("success")
        wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the end of the driver")
        job.begin()
        assert job.until_displayed("Executing", 1)["requirements"] == BOUNDS
        job.until_row_passes()
        job.post("cancel")
        job.until_task("failed")
        assert job.rows() == job.expected_rows
