"""Airflow's API server, and the supervisor of the triggers, answer nothing for a minute while jobs run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_adaptive._airflow.store.asset_store import FINISH_TIMEOUT
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Executing, Finished
from airflow_adaptive.local.airflow import Component
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_of_versions import JOBS, NEWEST, TIMEOUT_S, CopyJob, create_airflow, drivers
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

HANG_S = 70.0
"""Longer than the timeouts of Airflow's clients and of the loops."""

DECISION_S = 25.0
"""Longest time until a loop uses a new slot. A loop that waited for Airflow would wait for a timeout of at least 30 s."""


@contextmanager
def hanging_supervisor(airflow: AirflowUnderTest) -> Iterator[None]:
    """Stop the process that answers the triggers; the process of the triggers continues."""
    supervisor = airflow._process(Component.TRIGGERER).pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)


@pytest.mark.parametrize("what", ["API server", "supervisor"])
@pytest.mark.parametrize("version", ["3.1.8", "3.2.2", NEWEST])
def test_loops_decide_in_time_while_airflow_hangs_and_publish_afterwards(
    version: str, what: str, spark_cluster: LocalCluster, spark_connection: dict[str, str], tmp_path: Path
) -> None:
    with create_airflow(tmp_path, version, spark_connection) as airflow:
        jobs = [CopyJob(airflow, tmp_path, name) for name in JOBS]
        first, second = jobs
        for job in (second, first):
            spark_cluster.add_worker(cores=2, memory_mb=1024)
            job.begin()
            job.until_displayed("Executing", 1)
        started, owners = drivers(spark_cluster), [job.journal().owner for job in jobs]
        with airflow.hanging(Component.API_SERVER) if what == "API server" else hanging_supervisor(airflow):
            delays, until = [], time.monotonic() + HANG_S
            for _ in range(3):
                worker = spark_cluster.add_worker(cores=1, memory_mb=1024)
                offered_at = time.monotonic()
                wait_until(lambda: not first.is_executing(1), DECISION_S, "the decision to rescale")
                delays.append(time.monotonic() - offered_at)
                first.until_executing(2)
                spark_cluster.remove_worker(worker)
                first.until_executing(1)
                assert second.is_executing(1)
            for job in jobs:
                job.until_row_passes()
            wait_until(lambda: time.monotonic() >= until, 2 * HANG_S, "the end of the hang")
            assert [job.journal().owner for job in jobs] == owners
        sys.stdout.write(f"Airflow {version} without its {what} decides after {delays}\n")
        rescales = from_json(first.journal().scheduler).num_rescales
        wait_until(lambda: first.displayed()["rescales"] == rescales, TIMEOUT_S, "all rescales in the page")
        for job in jobs:
            job.until_displayed("Executing", 1)
            job.until_row_passes()
        assert drivers(spark_cluster) == started
        for job in jobs:
            job.post("cancel")
            job.until_task("failed")
            assert job.rows() == job.expected_rows
        assert "out of order" not in (airflow.home / "logs" / "triggerer.log").read_text()


@pytest.mark.parametrize("version", ["3.1.8", "3.2.2", NEWEST])
def test_history_contains_the_end_of_a_job_that_ends_while_airflow_hangs(
    version: str, spark_cluster: LocalCluster, spark_connection: dict[str, str], tmp_path: Path
) -> None:
    with create_airflow(tmp_path, version, spark_connection) as airflow:
        spark_cluster.add_worker(cores=2, memory_mb=1024)
        job = CopyJob(airflow, tmp_path, "second")
        job.begin()
        job.until_displayed("Executing", 1)

        def current() -> object:
            return from_json(job.journal().scheduler).current

        job.post("cancel")
        wait_until(lambda: not isinstance(current(), Executing), TIMEOUT_S, "the decision to cancel")
        with hanging_supervisor(airflow):
            wait_until(lambda: isinstance(current(), Finished), TIMEOUT_S, "the end of the job")
            until = time.monotonic() + FINISH_TIMEOUT.total_seconds() + 10
            wait_until(lambda: time.monotonic() >= until, HANG_S, "a loop that waits for Airflow no longer")
            assert job.displayed()["state"] != Finished.__name__
        job.until_task("failed")

        def newest_transition() -> str:
            return str(airflow.api._request("GET", f"{job.path}/transitions")["transitions"][0]["target"])

        wait_until(lambda: newest_transition() == Finished.__name__, TIMEOUT_S, "the end of the job in its history")
        assert job.displayed()["outcome"] == "CANCELED"
        assert job.rows() == job.expected_rows
