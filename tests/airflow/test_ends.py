"""Jobs that come to an end by themselves, on a real Airflow and a real Spark: bounded streams and batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.airflow import LocalAirflow
from airflow_adaptive.local.cluster import LocalCluster
from tests.airflow.conftest import SECRET
from tests.airflow.test_adaptive_job import Run

pytestmark = [pytest.mark.airflow, pytest.mark.cluster, pytest.mark.timeout(500)]


def written(playground: Path, job: str) -> list[str]:
    lines: list[str] = pq.read_table(playground / job / "output").column("value").to_pylist()
    return sorted(lines)


@pytest.mark.parametrize("job", ["drained", "found_batch"])
def test_bounded_stream_and_batch_in_the_driver_finish_the_job(
    airflow: LocalAirflow, spark_cluster: LocalCluster, playground: Path, job: str
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run = Run(airflow, playground, job)
    run.until_task("success")
    assert run.xcom("return_value") == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    assert run.xcom("state") == "FINISHED"
    assert written(playground, job) == ["one", "three", "two"]


def test_declared_batch_is_run_by_spark_submit_and_says_so(
    airflow: LocalAirflow, spark_cluster: LocalCluster, playground: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run = Run(airflow, playground, "declared_batch")
    run.until_task("success")
    assert run.xcom("return_value") == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    assert written(playground, "declared_batch") == ["one", "three", "two"]
    log = airflow.api.task_log("declared_batch", run.run_id, "job")
    assert "job 'declared_batch' is declared BATCH" in log
    assert "on at most 2 core(s)" in log
    assert "--total-executor-cores 2" in log
    assert not (playground / "jobs" / "declared_batch").exists(), "nothing is staged"
    assert f"={SECRET}" not in log
