"""Airflow fails a deferred task whose trigger fires before the scheduler has read the end of its first slice (apache/airflow#66374, #71580, #72716)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest

TIMEOUT_S = 180.0


@pytest.mark.parametrize("size", [10, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1500)])])
def test_no_task_fails_whose_trigger_has_nothing_to_wait_for(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster, size: int
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=2048)
    dag = f"short_{size}"
    wait_until(lambda: airflow.api.has_dag(dag), TIMEOUT_S, "the DAG")
    run = airflow.api.trigger(dag)

    def tasks() -> list[Any]:
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=200"
        return list((airflow.api._find(path) or {"task_instances": []})["task_instances"])

    def are_over() -> bool:
        states = [task["state"] for task in tasks()]
        return len(states) == size and all(state in ("success", "failed", "up_for_retry") for state in states)

    wait_until(are_over, TIMEOUT_S + 10 * size, "the end of the tasks")
    assert [(task["state"], task["try_number"]) for task in tasks()] == [("success", 1)] * size
