"""Airflow fails a deferred task whose trigger fires before the scheduler has read the end of its first slice (apache/airflow#66374, #71580, #72716)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

TIMEOUT_S = 180.0

JOBS = "/adaptive/api/v1/jobs"


def tasks(airflow: AirflowUnderTest, dag: str, run: str) -> list[Any]:
    path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances?limit=200"
    return list((airflow.api._find(path) or {"task_instances": []})["task_instances"])


def run_tasks(airflow: AirflowUnderTest, dag: str, size: int) -> list[Any]:
    """Run a DAG and return its task instances when all of them have ended or wait for a retry."""
    wait_until(lambda: airflow.api.has_dag(dag), TIMEOUT_S, "the DAG")
    run = airflow.api.trigger(dag)

    def are_over() -> bool:
        states = [task["state"] for task in tasks(airflow, dag, run)]
        return len(states) == size and all(state in ("success", "failed", "up_for_retry") for state in states)

    wait_until(are_over, TIMEOUT_S + 10 * size, "the end of the tasks")
    return tasks(airflow, dag, run)


@pytest.mark.parametrize("size", [10, 100])
def test_no_task_fails_whose_trigger_has_nothing_to_wait_for(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster, size: int
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=2048)
    found = run_tasks(airflow, f"short_{size}", size)
    assert [(task["state"], task["try_number"]) for task in found] == [("success", 1)] * size


def is_listed(airflow: AirflowUnderTest, index: int, job: str) -> bool:
    """Whether the list has this failed job alone at an index of the fleet. Jobs are published after their tasks have ended."""
    listed = airflow.api._find(f"{JOBS}?dag_id=instant&task_id=job&map_index={index}")["jobs"]
    return [(it["job"], it["outcome"]) for it in listed] == [(job, "FAILED")]


def test_jobs_that_fail_in_under_a_second_report_their_own_end(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster
) -> None:
    """A task that Airflow fails by itself never reports the end of its job."""
    spark_cluster.add_worker(cores=2, memory_mb=2048)
    found = run_tasks(airflow, "instant", 100)
    assert [(task["state"], task["try_number"]) for task in found] == [("failed", 1)] * 100
    for index in range(100):
        job = f"instant:job:i{index}"
        asset = job_asset(job)
        reported = airflow.api.asset_state(asset.name, f"{asset.prefix}handled_requests")["end"]
        assert (reported["outcome"], "NOT_ENOUGH_RESOURCES" in reported["cause"]) == ("FAILED", True), (job, reported)
        wait_until(partial(is_listed, airflow, index, job), TIMEOUT_S, f"the end of {job} in the list")
