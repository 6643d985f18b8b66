"""A mapped task with fifty jobs, on an Airflow with two triggerers of which one is killed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import httpx
import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.command import committed_files
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S
from tests.integration.databases.conftest import FLEET
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

API: Final = "/adaptive/api/v1/jobs"

FLEET_S: Final = 3600.0
"""Longest time until all jobs have ended. A few jobs at a time have slots, and the machine may be busy."""


class FleetRun:
    """A DAG run of the mapped task."""

    def __init__(self, airflow: ReplicatedAirflow) -> None:
        self._airflow = airflow
        wait_until(lambda: airflow.api.has_dag("fleet"), TIMEOUT_S, "the DAG of the fleet")
        self._run_id = airflow.api.trigger("fleet")

    def states(self) -> Counter[str]:
        """The number of tasks in each state."""
        path = f"/api/v2/dags/fleet/dagRuns/{self._run_id}/taskInstances?limit={len(FLEET)}"
        return Counter(str(task["state"]) for task in self._airflow.api._find(path)["task_instances"])

    def change_bounds(self) -> Counter[int]:
        """Change the bounds of all jobs at the same time, and return the number of responses of each status."""
        headers = dict(self._airflow.api._client.headers)

        def put(job: str) -> int:
            url = f"{self._airflow.url}{API}/fleet:job:{job}/resource-requirements"
            body = {"job": bounds(1, 1)}
            return httpx.put(url, json=body, headers=headers, timeout=TIMEOUT_S, trust_env=False).status_code

        with ThreadPoolExecutor(len(FLEET)) as pool:
            return Counter(pool.map(put, FLEET))


def test_fleet_ends_exactly_once_though_a_triggerer_is_killed_and_all_bounds_change(
    airflow: ReplicatedAirflow, playground: Path, spark_cluster: LocalCluster
) -> None:
    spark_cluster.add_worker(cores=6, memory_mb=6144)
    fleet = FleetRun(airflow)
    wait_until(lambda: fleet.states()["success"] >= 3, FLEET_S, "the first jobs to end")
    wait_until(lambda: len(airflow.trigger_owners()) == 2, TIMEOUT_S, "loops in both triggerers")
    ((killed, _),) = airflow.trigger_owners().most_common(1)
    airflow.kill_replica(killed)
    wait_until(lambda: killed not in airflow.trigger_owners(), TIMEOUT_S, "the loops in the other triggerer")

    statuses = fleet.change_bounds()
    assert statuses[200] > 0
    assert max(statuses) < 500

    wait_until(lambda: fleet.states()["success"] == len(FLEET), FLEET_S, "the end of all jobs")
    for job in FLEET:
        files = committed_files(playground / job / "output")
        assert sorted(row for file in files for row in pq.read_table(file)["value"].to_pylist()) == [
            "one",
            "three",
            "two",
        ]
    assert len(airflow.api._find(f"{API}?dag_id=fleet&limit={len(FLEET)}")["jobs"]) == len(FLEET)
    assert "deadlock detected" not in airflow.server.log
