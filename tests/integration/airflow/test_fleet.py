"""A mapped task runs a fleet of jobs on a real Airflow and a real Spark."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, page
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

JOBS = "/adaptive/api/v1/jobs"
DAG = TASKS = "fleet"
NAMES = ("fleet_a", "fleet_b")
INVALID = 2
"""Index of the item whose job id is invalid."""


class Fleet:
    """A run of the mapped task."""

    def __init__(self, airflow: AirflowUnderTest, dag: str = DAG) -> None:
        self.api, self.dag = airflow.api, dag
        wait_until(lambda: self.api.has_dag(dag), TIMEOUT_S, "the DAG of the fleet")
        self.api.unpause("after_fleet")
        self.run = self.api.trigger(dag)

    def instance(self, index: int) -> str:
        return f"/api/v2/dags/{self.dag}/dagRuns/{self.run}/taskInstances/job/{index}"

    def link(self, index: int, name: str) -> Any:
        path = f"/api/v2/dags/{self.dag}/dagRuns/{self.run}/taskInstances/job/links?map_index={index}"
        return self.api._find(path)["extra_links"][name]

    def state(self, index: int) -> Any:
        found = self.api._find(self.instance(index))
        return None if found is None else found["state"]

    def xcom(self, index: int, key: str) -> Any:
        path = f"/api/v2/dags/{self.dag}/dagRuns/{self.run}/taskInstances/job/xcomEntries/{key}?map_index={index}"
        found = self.api._find(path)
        return None if found is None else found["value"]

    def has_xcom(self, index: int, key: str, value: Any) -> bool:
        return bool(self.xcom(index, key) == value)

    def is_in(self, index: int, state: str) -> bool:
        return bool(self.state(index) == state)

    def request(self, job: str, action: str) -> None:
        self.api._request("POST", f"{JOBS}/{self.dag}:job:{job}/{action}", {})

    def executes(self, job: str) -> bool:
        return (self.published(job) or {}).get("state") == "Executing"

    def executes_at(self, index: int, job: str) -> bool:
        """Whether only this job executes at an index. The job that was there before and has left stays in the list, with its end."""
        listed = self.api._find(f"{JOBS}?dag_id={self.dag}&task_id=job&map_index={index}")["jobs"]
        return [it["job"] for it in listed if it["state"] == "Executing"] == [f"{self.dag}:job:{job}"]

    def published(self, job: str) -> Any:
        return self.api._find(f"{JOBS}/{self.dag}:job:{job}")

    def story(self, job: str) -> str:
        """What a test displays of a job that does not run on as expected."""
        parts = [self.api._find(f"{JOBS}/{self.dag}:job:{job}/{part}") for part in ("failures", "transitions")]
        return json.dumps({"job": job, "published": self.published(job), "parts": parts}, indent=1)


def test_each_job_of_a_fleet_has_its_own_page_links_and_requests(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster, playground: Path
) -> None:
    for name in NAMES:
        (playground / name / "input").mkdir(parents=True)
        (playground / name / "input" / "lines.txt").write_text("one\ntwo\n")
    spark_cluster.add_worker(cores=4, memory_mb=2048)
    fleet = Fleet(airflow)
    for index in range(len(NAMES)):
        wait_until(partial(fleet.has_xcom, index, "state", "Executing"), 2 * TIMEOUT_S, f"job {index} executes")
    wait_until(lambda: fleet.state(INVALID) == "failed", TIMEOUT_S, "the end of the invalid item")

    tabs = [airflow.api._find(f"{JOBS}?dag_id={DAG}&task_id=job&map_index={index}")["jobs"] for index in range(2)]
    assert [[job["job"] for job in jobs] for jobs in tabs] == [["fleet:job:fleet_a"], ["fleet:job:fleet_b"]]
    links = [fleet.link(index, "Spark driver UI") for index in range(2)]
    assert ["fleet_a" in page(links[0]), "fleet_b" in page(links[1])] == [True, True]

    fleet.request("fleet_a", "suspend")
    wait_until(lambda: fleet.state(0) == "success", TIMEOUT_S, "the end of the suspended job")
    assert (fleet.state(1), fleet.published("fleet_b")["state"]) == ("deferred", "Executing")
    fleet.request("fleet_a", "resume")
    wait_until(lambda: fleet.published("fleet_a")["state"] == "Executing", 2 * TIMEOUT_S, "the resumed job")
    assert fleet.state(1) == "deferred"
    for name in NAMES:
        fleet.request(name, "cancel")
    for index in range(len(NAMES)):
        wait_until(partial(fleet.is_in, index, "failed"), TIMEOUT_S, f"the end of job {index}")
    assert airflow.api.run_states("after_fleet") == []  # No job has finished.


def test_clear_with_another_list_adopts_jobs_that_move_and_cancels_those_that_leave(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster, playground: Path
) -> None:
    names = playground / "names.json"
    items = ["fa", "fb", "fc"]
    names.write_text(json.dumps(items))
    spark_cluster.add_worker(cores=6, memory_mb=4096)
    fleet = Fleet(airflow, "changing")

    def driver(name: str) -> Any:
        return (fleet.published(name)["restarts"], fleet.published(name)["urls"]["driver"])

    def is_canceled(name: str) -> bool:
        return bool(fleet.published(name)["outcome"] == "CANCELED")

    for name in items:
        wait_until(partial(fleet.executes, name), 3 * TIMEOUT_S, f"job {name} executes")
    for changed in (["fd", "fc", "fa"], ["fa"], ["fe", "fa"]):  # reordered, shortened, extended
        drivers = {name: driver(name) for name in items if name in changed}
        names.write_text(json.dumps(changed))
        clear = {"dry_run": False, "dag_run_id": fleet.run, "only_failed": False, "reset_dag_runs": True}
        fleet.api._request("POST", "/api/v2/dags/changing/clearTaskInstances", clear)
        for name in set(items) - set(changed):
            wait_until(partial(is_canceled, name), 3 * TIMEOUT_S, f"the end of job {name}, which has no item")
        for index, name in enumerate(changed):
            wait_until(partial(fleet.has_xcom, index, "state", "Executing"), 3 * TIMEOUT_S, f"job {name} executes")
            wait_until(partial(fleet.executes_at, index, name), TIMEOUT_S, f"only job {name} executes at index {index}")
        for name, known in drivers.items():
            assert driver(name) == known, fleet.story(name)
        items = changed
    for name in items:
        fleet.request(name, "cancel")
    for index in range(len(items)):
        wait_until(partial(fleet.is_in, index, "failed"), TIMEOUT_S, f"the end of job {index}")
