"""An Airflow whose version a test chooses and changes, with jobs that copy lines.

Other versions of Airflow are in `.airflow` (`.ci/ensure_airflow.sh`). A test that needs a version without a folder there is skipped.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.parquet
import pytest

from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive.local.airflow import Config
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.demo.command import committed_files
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.repository import ROOT

NEWEST = version("apache-airflow-core")
"""Version of Airflow in the environment of the tests."""

TIMEOUT_S = 180.0
"""Also of a triggerer that takes over: it takes the triggers of a triggerer that has sent no heartbeat for 30 s."""

TASK = "job"

JOBS = ("first", "second")
"""Names of the jobs and of their DAGs. The first one uses up to two slots, the second one uses one slot."""

DAG = dedent(
    """
    from datetime import timedelta
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    for name in {jobs}:
        with DAG(name, schedule=None):
            AdaptiveSparkOperator(
                task_id="job",
                job=name,
                application="{directory}/script.py",
                application_args=["{directory}/" + name, "endless"],
                job_directory="file://{directory}/jobs",
                parallelism=(1, 2) if name == "first" else 1,
                driver_memory="512m",
                executor_memory="512m",
                scaling_interval_min="2 s",
                executing_stabilization_timeout="1 s",
                resource_stabilization_timeout="1 s",
                max_trigger_delay="3 s",
                stop_timeout="8 s",
                # SQLite loses the task instance in a migration of the triggers, and Airflow starts the task again, while the API server may still start.
                retries=3,
                retry_delay=timedelta(seconds=5),
            )
    """
)

SCRIPT = dedent(
    """
    import sys
    from airflow_adaptive.job import AdaptiveJob


    def copy(spark, parallelism):
        lines = spark.readStream.format("text").load(f"{sys.argv[1]}/input")
        return lines.writeStream.format("parquet").option("path", f"{sys.argv[1]}/output").trigger(processingTime="1 second")


    AdaptiveJob(copy).run()
    """
)


def python_of(version_of_airflow: str) -> str:
    """Return the interpreter of an environment with this version of Airflow."""
    if version_of_airflow == NEWEST:
        return sys.executable
    if not (found := ROOT / ".airflow" / version_of_airflow / "bin" / "python").exists():
        pytest.skip(f"{found} does not exist: run `.ci/ensure_airflow.sh {version_of_airflow}`")
    return str(found)


def create_airflow(
    directory: Path, version_of_airflow: str, env: Mapping[str, str], config: Config | None = None
) -> AirflowUnderTest:
    """Return an Airflow, not started yet, with the DAGs of `JOBS`."""
    python = python_of(version_of_airflow)
    for folder in ("dags", *(f"{job}/input" for job in JOBS)):
        (directory / folder).mkdir(parents=True)
    (directory / "script.py").write_text(SCRIPT)
    (directory / "dags" / "jobs.py").write_text(DAG.format(jobs=JOBS, directory=directory))
    airflow = AirflowUnderTest(directory / "airflow", directory / "dags", config=config, env=env)
    airflow.python = python
    return airflow


class CopyJob:
    """One of `JOBS`: what its user does, and what is seen of it in the page and in its job directory."""

    def __init__(self, airflow: AirflowUnderTest, directory: Path, name: str) -> None:
        self.airflow, self.name, self._directory = airflow, name, directory
        self.path = f"/adaptive/api/v1/jobs/{name}"
        self.run_id = ""
        self.lines = 0

    def begin(self) -> None:
        """Start a DAG run."""
        wait_until(lambda: self.airflow.api.has_dag(self.name), TIMEOUT_S, f"DAG {self.name}")
        self.run_id = self.airflow.api.trigger(self.name)

    @property
    def task_state(self) -> str | None:
        """State of the task instance; None if it has none, or does not exist."""
        found = self.airflow.api._find(f"/api/v2/dags/{self.name}/dagRuns/{self.run_id}/taskInstances/{TASK}")
        return None if found is None else str(found["state"])

    def until_task(self, state: str) -> None:
        wait_until(lambda: self.task_state == state, TIMEOUT_S, f"the task of {self.name} in state {state}")

    def post(self, action: str) -> None:
        self.airflow.api._request("POST", f"{self.path}/{action}", {})

    def require(self, lower: int, upper: int) -> None:
        bounds = {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}
        self.airflow.api._request("PUT", f"{self.path}/resource-requirements", bounds)

    def displayed(self) -> dict[str, Any]:
        """Return what the REST API shows; empty for an unknown job."""
        return dict(self.airflow.api._find(self.path) or {})

    def until_displayed(self, state: str, parallelism: int) -> dict[str, Any]:
        """Wait until the REST API shows a state that a loop published a short time ago, and return what it shows."""
        wanted = (state, {"job": parallelism}, False)
        wait_until(
            lambda: tuple(map(self.displayed().get, ("state", "parallelism", "stale"))) == wanted,
            TIMEOUT_S,
            f"{self.name} {state} at {parallelism} in the page",
        )
        return self.displayed()

    def journal(self) -> JournalDocument:
        """Return the newest document of the journal."""
        return wait_until(self._newest, TIMEOUT_S, f"the journal of {self.name}")

    def _newest(self) -> JournalDocument | None:
        files = sorted((self._directory / "jobs" / self.name / "journal").glob("[0-9]*.json"))
        with suppress(FileNotFoundError):  # The loop deletes old documents.
            return decode_document(JournalDocument, files[-1].read_bytes()) if files else None
        return None

    def is_executing(self, parallelism: int) -> bool:
        """Return whether the job executes with this parallelism, by its journal."""
        document = self._newest()
        current = None if document is None else from_json(document.scheduler).current
        return isinstance(current, Executing) and dict(current.plan.parallelism) == {"job": parallelism}

    def until_executing(self, parallelism: int) -> None:
        wait_until(lambda: self.is_executing(parallelism), TIMEOUT_S, f"{self.name} at {parallelism}")

    def until_row_passes(self) -> None:
        """Add a line to the input, and wait until it is in the output."""
        line = str(self.lines)
        self.lines += 1
        (self._directory / self.name / "input" / f"{line}.txt").write_text(f"{line}\n")
        wait_until(lambda: line in self.rows(), TIMEOUT_S, f"line {line} in the output of {self.name}")

    def rows(self) -> Counter[str]:
        """Count the rows of the files that Spark has committed."""
        files = committed_files(self._directory / self.name / "output")
        return Counter(row for file in files for row in pyarrow.parquet.read_table(file)["value"].to_pylist())

    @property
    def expected_rows(self) -> Counter[str]:
        """Each line once."""
        return Counter(map(str, range(self.lines)))


def drivers(cluster: LocalCluster) -> list[str]:
    """Return the ids of all drivers that a cluster has started."""
    return sorted(driver["id"] for key in ("activedrivers", "completeddrivers") for driver in cluster.state()[key])
