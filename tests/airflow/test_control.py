"""Other DAGs control a job and are told of it, on a real Airflow and a real Spark; what the job shows while it runs."""

from __future__ import annotations

import pytest

from airflow_adaptive.local.airflow import LocalAirflow
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from airflow_adaptive.scheduler.snapshot import from_json
from tests.airflow.test_adaptive_job import TIMEOUT_S, Begin, begin  # noqa: F401  a fixture

pytestmark = [pytest.mark.airflow, pytest.mark.cluster, pytest.mark.timeout(500)]

JOB = "controlled"


def test_another_dag_shrinks_and_suspends_a_job_and_a_third_one_is_told(
    airflow: LocalAirflow,
    begin: Begin,  # noqa: F811
    spark_cluster: LocalCluster,
) -> None:
    run = begin(JOB)
    wait_until(lambda: airflow.api.has_dag("control"), TIMEOUT_S, "the DAG that controls")
    airflow.api.unpause("afterwards")
    spark_cluster.add_worker(cores=1, memory_mb=1024)
    run.until_executing(2)
    wait_until(lambda: airflow.api.asset_state(JOB, "metrics/10")["points"], TIMEOUT_S, "the first figures")

    control = airflow.api.trigger("control")
    wait_until(lambda: airflow.api.run_state("control", control) == "success", TIMEOUT_S, "the end of the control")
    bounds = {"job": {"parallelism": {"lowerBound": 1, "upperBound": 1}}}
    assert airflow.api.xcom("control", control, "shrink", "return_value") == bounds
    assert airflow.api.xcom("control", control, "stop", "return_value") == "SUSPENDED"
    run.until_task("success")
    assert airflow.api.asset_state(JOB, "asked")["wish"]["by"] == f"control/stop/{control}"
    wait_until(lambda: airflow.api.run_states("afterwards") == ["success"], TIMEOUT_S, "the DAG that is told")

    summary = airflow.api.asset_state(JOB, "summary")
    assert (summary["state"], summary["outcome"]) == ("Finished", "SUSPENDED")
    assert summary["requirements"] == {"job": {"lower": 1, "upper": 1}}
    assert from_json(airflow.api.asset_state(JOB, "scheduler")).num_rescales == summary["rescales"]
    history = airflow.api.asset_state(JOB, "history")
    assert [transition["target"] for transition in history["transitions"]][-1] == "Finished"
