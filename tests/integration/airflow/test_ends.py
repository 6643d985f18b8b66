"""Jobs that come to an end by themselves, on a real Airflow and a real Spark: bounded streams and batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.conftest import SECRET
from tests.integration.airflow.test_adaptive_job import Run
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = pytest.mark.long


TIMEOUT_S = 240.0
"""Three jobs share two cores."""


def until_success(run: Run) -> None:
    wait_until(lambda: run.task_state in ("success", "failed"), TIMEOUT_S, "the end of the task")
    assert run.task_state == "success", run.xcom("transitions")


def written(playground: Path, job: str) -> list[str]:
    lines: list[str] = pq.read_table(playground / job / "output").column("value").to_pylist()
    return sorted(lines)


@pytest.fixture(scope="module")
def runs(airflow: AirflowUnderTest, spark_master: LocalCluster, playground: Path) -> Iterator[Mapping[str, Run]]:
    """All of them at once: most of the time each waits for Airflow."""
    spark_master.add_worker(cores=5, memory_mb=2560)
    yield {job: Run(airflow, playground, job) for job in ("drained", "found_batch", "declared_batch")}
    spark_master.reset()


@pytest.mark.parametrize("job", ["drained", "found_batch"])
def test_bounded_stream_and_batch_in_the_driver_finish_the_job(
    runs: Mapping[str, Run], airflow: AirflowUnderTest, playground: Path, job: str
) -> None:
    until_success(runs[job])
    assert airflow.api.asset_events(job) == [f"adaptive://job/{job}"]
    assert runs[job].xcom("return_value") == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    assert runs[job].xcom("state") == "FINISHED"
    assert written(playground, job) == ["one", "three", "two"]


def test_declared_batch_is_run_by_spark_submit_and_reports_it(
    runs: Mapping[str, Run], airflow: AirflowUnderTest, playground: Path
) -> None:
    run = runs["declared_batch"]
    until_success(run)
    assert run.xcom("return_value") == {"outcome": "FINISHED", "restarts": 0, "rescales": 0}
    assert written(playground, "declared_batch") == ["one", "three", "two"]
    log = airflow.api.task_log("declared_batch", run.run_id, "job")
    assert "Job 'declared_batch' is declared BATCH" in log
    assert "on at most 1 core(s)" in log
    assert "--total-executor-cores 1" in log
    assert not (playground / "jobs" / "declared_batch").exists(), "nothing is staged"
    assert f"={SECRET}" not in log
