"""The operator runs, watches, suspends and adopts a job on a real Airflow of four processes and a real Spark cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_adaptive._airflow.store.job_asset import JOBS
from airflow_adaptive._core.protocol.documents import DriverStatus, JournalDocument, decode_document
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.servers.smtp_server import SmtpServer
from tests.support.servers.statsd_server import Statsd

TIMEOUT_S = 240.0
TASK = "job"
HAS_COMMANDS = hasattr(ProvidersManager, "cli_command_functions")
"""Whether Airflow has the commands of providers: from 3.2 on."""

BOUNDS_OF_ONE = {"job": {"lower": 1, "upper": 1}}
COOLDOWN = timedelta(seconds=10)
"""`scaling_interval_min` of the DAG that rescales."""


class Run:
    """A DAG run of one adaptive job, as its user sees it."""

    def __init__(self, airflow: AirflowUnderTest, playground: Path, dag: str) -> None:
        self._api = airflow.api
        self._dag = dag
        self._directory = playground / "jobs" / dag
        wait_until(lambda: self._api.has_dag(dag), TIMEOUT_S, f"DAG {dag}")
        self.run_id = self._api.trigger(dag)

    @property
    def task_state(self) -> str | None:
        return self._api.task_state(self._dag, self.run_id, TASK)

    def xcom(self, key: str) -> Any:
        return self._api.xcom(self._dag, self.run_id, TASK, key)

    def xcoms(self) -> list[Any]:
        return self._api.xcoms(self._dag, self.run_id, TASK)

    def links(self) -> dict[str, str | None]:
        return self._api.links(self._dag, self.run_id, TASK)

    def until(self, key: str, value: Any) -> None:
        wait_until(lambda: self.xcom(key) == value, TIMEOUT_S, f"XCom {key} = {value!r} of {self._dag}")

    def until_task(self, *states: str) -> None:
        wait_until(lambda: self.task_state in states, TIMEOUT_S, f"{self._dag} in {states}")

    def executing(self, parallelism: int) -> bool:
        return self.xcom("state") == "Executing" and self.xcom("parallelism") == {"job": parallelism}

    def until_executing(self, parallelism: int) -> None:
        wait_until(lambda: self.executing(parallelism), TIMEOUT_S, f"{self._dag} at {parallelism}")

    def request(self, desired_state: str) -> None:
        self._api.set_asset_state(f"{JOBS}{self._dag}", "desired_state", {"value": desired_state})

    def require(self, lower: int, upper: int) -> None:
        bounds = {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}
        self._api.set_asset_state(f"{JOBS}{self._dag}", "requirements", {"value": bounds})

    def clear(self) -> None:
        self._api.clear_task(self._dag, self.run_id, TASK)

    def end_task(self, state: str) -> None:
        self._api.set_task_state(self._dag, self.run_id, TASK, state)

    def fail(self) -> None:
        self.end_task("failed")

    def pause(self) -> None:
        self._api._request("PATCH", f"/api/v2/dags/{self._dag}", {"is_paused": True})

    def status(self) -> DriverStatus:
        """The newest driver status; for a moment the file is missing, while Hadoop's local file system replaces it."""
        return decode_document(DriverStatus, wait_until(self._report, TIMEOUT_S, f"a report of {self._dag}"))

    def _report(self) -> bytes:
        with suppress(FileNotFoundError):
            return (self._directory / "status.json").read_bytes()
        return b""

    def owner(self) -> str:
        """The loop that wrote the newest document of the log."""
        newest = max((self._directory / "journal").glob("[0-9]*.json"))
        return decode_document(JournalDocument, newest.read_bytes()).owner

    def cooldowns(self) -> list[timedelta]:
        """How long the job executed before each rescale."""
        transitions = self.xcom("transitions")
        return [
            datetime.fromisoformat(left["at"]) - datetime.fromisoformat(entered["at"])
            for entered, left in pairwise(transitions)
            if entered["target"] == "Executing" and left["target"] in ("Deploying", "Restarting")
        ]

    def outcomes(self) -> list[str]:
        return [transition["target"] for transition in self.xcom("transitions")]


Begin = Callable[[str], Run]


@pytest.fixture
def begin(airflow: AirflowUnderTest, spark_cluster: LocalCluster, playground: Path) -> Iterator[Begin]:
    """Start a job on a cluster with room for its driver and one slot, and wait until it executes.

    A job that a failed test leaves is canceled, so that the next test has the slots of the cluster.
    """
    runs: list[Run] = []

    def begin(dag: str) -> Run:
        spark_cluster.add_worker(cores=2, memory_mb=1024)
        run = Run(airflow, playground, dag)
        runs.append(run)
        run.until_executing(1)
        return run

    yield begin
    for run in runs:
        if run.task_state == "deferred":
            run.fail()
            wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the driver of the failed test to be gone")


def page(url: str | None) -> str:
    """What a person's browser gets."""
    return httpx.get(str(url), trust_env=False, follow_redirects=True, timeout=TIMEOUT_S).raise_for_status().text


def no_driver_runs(cluster: LocalCluster) -> bool:
    return not cluster.state()["activedrivers"]


def adaptive(airflow: AirflowUnderTest, *words: str) -> str:
    """What `airflow adaptive ...` prints on a machine of this Airflow, or the module of the commands before Airflow has commands of providers."""
    command = [
        sys.executable,
        "-m",
        *(("airflow", "adaptive") if HAS_COMMANDS else ("airflow_adaptive",)),
        *words,
    ]
    ran = subprocess.run(
        command, env=airflow._environment, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S
    )
    # The commands of Airflow 3.2 write logs to the standard output.
    return "".join(line for line in ran.stdout.splitlines(keepends=True) if not re.match(r"\d{4}-\d\d-\d\dT", line))


def until_gauge(statsd: Statsd, name: str, value: float) -> None:
    wait_until(lambda: statsd.gauges.get(f"airflow.adaptive.{name}") == value, TIMEOUT_S, f"metric {name} = {value}")


def test_job_grows_is_watched_and_is_suspended(
    begin: Begin, airflow: AirflowUnderTest, spark_cluster: LocalCluster, mailbox: SmtpServer, statsd: Statsd
) -> None:
    run = begin("endless")
    assert run.task_state == "deferred"
    links = run.links()
    assert [links["Spark master UI"], links["Spark driver UI"]] == [spark_cluster.ui_url, run.status().ui_url]
    assert "executorspage" in page(links["Spark executors"])
    assert "stdout log page" in page(links["Spark driver stdout"])
    assert "Launch Command" in page(links["Spark driver stderr"])

    spark_cluster.add_worker(cores=1, memory_mb=512)
    run.until_executing(2)
    assert run.status().epoch == 1
    subject = "job 'endless' was rescaled from 1 to 2: the available slots changed"
    wait_until(lambda: subject in mailbox.subjects, TIMEOUT_S, f"a mail: {subject}")
    until_gauge(statsd, "endless.parallelism.job", 2)
    until_gauge(statsd, "endless.slots", 2)
    assert (
        statsd.counts["airflow.adaptive.endless.rescales"]
        == statsd.gauges["airflow.adaptive.endless.num_rescales"]
        == 1
    )

    run.require(1, 1)
    run.require(2, 2)
    run.require(1, 1)
    # The XComs of a rescale are written one after another.
    wait_until(lambda: run.executing(1) and len(run.cooldowns()) >= 2, TIMEOUT_S, "the rescale to 1")
    assert run.status().epoch == 1
    assert all(cooldown >= COOLDOWN for cooldown in run.cooldowns())
    wait_until(lambda: len(run.status().executors) == 1, TIMEOUT_S, "the idle executor to go back")

    (listed,) = json.loads(adaptive(airflow, "jobs", "--dag-id", "endless", "-o", "json"))
    assert (listed["job"], listed["parallelism"], listed["requirements"]) == ("endless", {"job": 1}, BOUNDS_OF_ONE)
    assert "Requested that job 'endless' stops" in adaptive(airflow, "suspend", "endless")
    run.until_task("success")
    until_gauge(statsd, "endless.state.Finished", 1)
    assert run.xcom("return_value")["outcome"] == "SUSPENDED"
    assert run.outcomes()[-2:] == ["StopWithSavepoint", "Finished"]
    assert no_driver_runs(spark_cluster)


@pytest.mark.long
def test_recycled_trigger_leaves_the_driver_alone(begin: Begin) -> None:
    run = begin("recycled")
    first = run.status()
    owner = run.owner()
    wait_until(lambda: run.owner() != owner, TIMEOUT_S, "another loop to claim the log")
    assert run.task_state in ("deferred", "scheduled", "queued", "running")
    run.request("suspended")
    run.until_task("success")
    assert run.status().epoch == first.epoch


@pytest.mark.long
def test_cleared_task_adopts_the_running_driver_and_a_failed_task_ends_it(
    begin: Begin, spark_cluster: LocalCluster
) -> None:
    run = begin("cleared")
    before, owner = run.status(), run.owner()
    run.clear()
    wait_until(lambda: run.owner() != owner, TIMEOUT_S, "the second attempt to claim the log")
    run.until_task("deferred")
    assert (run.status().epoch, run.status().submission_id) == (before.epoch, before.submission_id)
    run.fail()
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the driver to be gone")
    assert run.task_state == "failed"


@pytest.mark.long
def test_job_in_a_worker_is_stopped_with_its_task(begin: Begin, spark_cluster: LocalCluster, statsd: Statsd) -> None:
    run = begin("in_worker")
    assert run.task_state == "running"
    until_gauge(statsd, "in_worker.state.Executing", 1)
    run.fail()
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the driver to be gone")


@pytest.mark.long
def test_job_of_a_paused_dag_is_supervised_and_ends_with_its_task(begin: Begin, spark_cluster: LocalCluster) -> None:
    """Airflow runs no slice of a paused DAG: the recycled trigger has no successor, and does not call `on_kill`."""
    run = begin("paused")
    run.pause()
    run.until_task("scheduled")
    spark_cluster.kill_driver(str(run.status().submission_id))
    wait_until(lambda: run.status().epoch == 2, TIMEOUT_S, "the next driver")
    run.fail()
    wait_until(lambda: no_driver_runs(spark_cluster), TIMEOUT_S, "the driver to be gone")
