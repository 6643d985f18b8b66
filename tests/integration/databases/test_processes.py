"""A job on an Airflow with two schedulers, two triggerers, an API server of two processes, and PostgreSQL, as `make test-jobs` runs it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.command import committed_files
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow

pytestmark = pytest.mark.timeout(600)

JOB = "replicated"

API = f"/adaptive/api/v1/jobs/{JOB}"

CHANGES = 40


def put_all(airflow: ReplicatedAirflow) -> Counter[int]:
    """Change the bounds of the job with many connections at the same time, and return the number of responses of each status."""
    headers = dict(airflow.api._client.headers)

    def put(number: int) -> int:
        body = {"job": bounds(1, 1 + number % 2)}
        url = f"{airflow.url}{API}/resource-requirements"
        return httpx.put(url, json=body, headers=headers, timeout=TIMEOUT_S, trust_env=False).status_code

    with ThreadPoolExecutor(CHANGES) as pool:
        return Counter(pool.map(put, range(CHANGES)))


def source(airflow: ReplicatedAirflow) -> str:
    return str(airflow.api._find(API)["requirements_source"]["origin"])


def rows(playground: Path) -> list[str]:
    """Return the rows that the committed batches have written, sorted."""
    files = committed_files(playground / JOB / "output")
    return sorted(row for file in files for row in pq.read_table(file)["value"].to_pylist())


def test_job_survives_the_death_of_its_triggerer_and_of_a_scheduler(
    airflow: ReplicatedAirflow, playground: Path, spark_cluster: LocalCluster
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    run = Run(airflow, playground, JOB)
    run.until_executing(1)
    driver, loop, triggerer = run.status().submission_id, run.owner(), airflow.trigger_owner()
    assert triggerer in ("triggerer-1", "triggerer-2")

    airflow.kill_replica(triggerer)
    wait_until(lambda: airflow.trigger_owner() not in (triggerer, None), TIMEOUT_S, "the other triggerer")
    wait_until(lambda: run.owner() != loop, TIMEOUT_S, "the loop in the other triggerer")
    assert (run.task_state, run.status().submission_id) == ("deferred", driver)

    (playground / JOB / "input" / "more.txt").write_text("four\n")
    assert put_all(airflow) == {200: CHANGES}
    wait_until(lambda: source(airflow) == "USER", TIMEOUT_S, "a change to reach the loop")

    airflow.kill_replica("scheduler-1")
    wait_until(lambda: len(rows(playground)) >= 4, TIMEOUT_S, "all rows")
    airflow.api._request("POST", f"{API}/suspend", {})
    run.until_task("success")
    assert run.xcom("return_value")["outcome"] == "SUSPENDED"
    assert (run.status().submission_id, run.status().epoch) == (driver, 1)
    assert rows(playground) == ["four", "one", "three", "two"]
    assert "deadlock detected" not in airflow.server.log
