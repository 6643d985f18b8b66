"""A job whose task runs in Celery workers, on an Airflow with two schedulers, two triggerers, and an API server of two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run, no_driver_runs
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow

pytestmark = pytest.mark.timeout(600)

JOB = "distributed"

API = f"/adaptive/api/v1/jobs/{JOB}"

ACCEPTED = 202

EXECUTORS = f"SELECT DISTINCT executor FROM task_instance WHERE dag_id = '{JOB}'"


def test_job_is_rescaled_moved_suspended_resumed_and_canceled(
    airflow: ReplicatedAirflow, playground: Path, spark_cluster: LocalCluster
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run = Run(airflow, playground, JOB)
    run.until_executing(1)
    driver, loop, triggerer = run.status().submission_id, run.owner(), airflow.trigger_owner()
    assert triggerer in ("triggerer-1", "triggerer-2")
    assert [row.executor for row in airflow.rows(EXECUTORS)] == ["CeleryExecutor"]

    airflow.kill_replica(triggerer)
    wait_until(lambda: airflow.trigger_owner() not in (triggerer, None), TIMEOUT_S, "the other triggerer")
    wait_until(lambda: run.owner() != loop, TIMEOUT_S, "the loop in the other triggerer")
    spark_cluster.add_worker(cores=1, memory_mb=512)
    run.until_executing(2)
    airflow.api._request("PUT", f"{API}/resource-requirements", {"job": bounds(1, 1)})
    run.until_executing(1)
    assert (run.status().submission_id, run.status().epoch) == (driver, 1)

    airflow.api._request("POST", f"{API}/suspend", {})
    run.until_task("success")
    assert run.xcom("return_value")["outcome"] == "SUSPENDED"
    wait_until(lambda: airflow.api._client.post(f"{API}/resume", json={}).status_code == ACCEPTED, TIMEOUT_S, "resume")
    wait_until(lambda: run.status().epoch == 2, TIMEOUT_S, "the next driver")
    run.until_executing(1)
    airflow.api._request("POST", f"{API}/cancel", {})
    run.until_task("failed")
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the end of the driver")
