"""Jobs after Airflow's database was restored from a backup, which does not contain what happened since then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from airflow_adaptive._engine.journal.journal import attempt_of
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.test_adaptive_job import TIMEOUT_S, Run, no_driver_runs
from tests.integration.databases.test_outages import API, requested_upper, rows
from tests.support.airflow.rest_api import bounds
from tests.support.databases.replicas import ReplicatedAirflow

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

RUNNING: Final = ("kept", "cleared", "later")
"""Jobs that run during and after the restoration."""


def test_jobs_continue_exactly_once_after_the_restoration_of_a_backup(
    airflow: ReplicatedAirflow, playground: Path, spark_cluster: LocalCluster
) -> None:
    """After the backup, a user changes the bounds of one job and clears the task of another, the third job ends, and the fourth job begins."""
    spark_cluster.add_worker(cores=8, memory_mb=4096)
    runs = {job: begun(airflow, playground, job) for job in ("kept", "cleared", "ended")}
    first_attempt = attempt_of(runs["cleared"].owner())
    backup = airflow.server.backup(airflow.database)

    airflow.api._request("PUT", f"{API}/kept/resource-requirements", {"job": bounds(1, 1)})
    runs["kept"].until_executing(1)
    runs["cleared"].clear()
    until_attempt(runs["cleared"], lambda attempt: attempt != first_attempt)
    airflow.api._request("POST", f"{API}/ended/suspend", {})
    runs["ended"].until_task("success")
    runs["later"] = begun(airflow, playground, "later")
    drivers = {job: (run.status().submission_id, 1) for job, run in runs.items()}
    loop = runs["kept"].owner()

    with airflow.stopped():
        airflow.server.restore(airflow.database, backup)
        for job in RUNNING:
            (playground / job / "input" / "during.txt").write_text("four\nfive\n")
        wait_until(lambda: all(rows(playground / job) == 5 for job in RUNNING), TIMEOUT_S, "rows without Airflow")

    wait_until(lambda: runs["kept"].owner() != loop, TIMEOUT_S, "the loop of the restored task")
    until_attempt(runs["cleared"], lambda attempt: attempt == first_attempt)
    wait_until(lambda: requested_upper(airflow, "kept") == 1, TIMEOUT_S, "the bounds that the backup does not contain")
    runs["ended"].until_task("success")
    assert runs["ended"].xcom("return_value")["outcome"] == "SUSPENDED"
    assert airflow.api.run_states("later") == []
    runs["later"] = begun(airflow, playground, "later")

    for job in RUNNING:
        airflow.api._request("POST", f"{API}/{job}/suspend", {})
        runs[job].until_task("success")
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the end of the drivers")
    assert {job: (run.status().submission_id, run.status().epoch) for job, run in runs.items()} == drivers
    assert {job: rows(playground / job) for job in runs} == {"kept": 5, "cleared": 5, "ended": 3, "later": 5}


def begun(airflow: ReplicatedAirflow, playground: Path, job: str) -> Run:
    """A new DAG run of a job, whose loop runs."""
    run = Run(airflow, playground, job)
    run.until("state", "Executing")
    return run


def until_attempt(run: Run, is_expected: Callable[[str], bool]) -> None:
    """Wait until a loop of the expected attempt has written the newest document of the journal."""
    wait_until(lambda: is_expected(attempt_of(run.owner())), TIMEOUT_S, "the attempt that runs the job")
