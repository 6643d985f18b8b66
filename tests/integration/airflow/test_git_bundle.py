"""A job whose DAG and script are in a Git bundle, and a new commit while the job runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from airflow_adaptive._airflow.internals import has
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.conftest import spark_connection  # noqa: F401  a fixture
from tests.integration.airflow.test_adaptive_job import TASK, TIMEOUT_S, Run
from tests.support.airflow.airflow_under_test import AirflowUnderTest

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

JOB = "pinned"

API = f"/adaptive/api/v1/jobs/{JOB}"

ACCEPTED = 202

SCRIPT = dedent(
    """
    import sys
    from airflow_adaptive.job import AdaptiveJob
    from pyspark.sql import functions

    directory = sys.argv[1]


    def count(spark, parallelism):
        lines = spark.readStream.format("text").load(f"{directory}/input")
        return (
            lines.withColumn("commit", functions.lit("COMMIT"))
            .writeStream.format("parquet")
            .option("path", f"{directory}/output")
            .trigger(processingTime="1 second")
        )


    AdaptiveJob(count).run()
    """
)

DAG = dedent(
    """
    from pathlib import Path
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    with DAG("{job}", schedule=None):
        AdaptiveSparkOperator(
            task_id="job",
            job="{job}",
            application=str(Path(__file__).with_name("script.py")),
            application_args=["{directory}/{job}"],
            job_directory="file://{directory}/jobs",
            parallelism=(1, 1),
            driver_memory="512m",
            executor_memory="512m",
            resource_stabilization_timeout="1 s",
            scaling_interval_min="2 s",
            stop_timeout="8 s",
            trigger_lifetime="10 s",
            doc="{commit}",
        )
    """
)


class Repository:
    """A Git repository with the DAG and its script."""

    def __init__(self, folder: Path, playground: Path) -> None:
        self._folder = folder
        self._playground = playground
        folder.mkdir()
        self._git("init", "--quiet", "--initial-branch", "main")

    def commit(self, name: str) -> str:
        """Commit a version of the DAG and the script, and return its hash."""
        (self._folder / "script.py").write_text(SCRIPT.replace("COMMIT", name))
        (self._folder / "dag.py").write_text(DAG.format(job=JOB, directory=self._playground, commit=name))
        self._git("add", ".")
        self._git("-c", "user.name=tests", "-c", "user.email=tests@example.com", "commit", "--quiet", "-m", name)
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        return subprocess.check_output(["git", *arguments], cwd=self._folder, text=True).strip()


class Input:
    """The input of the job, and the commits whose code has processed it."""

    def __init__(self, playground: Path) -> None:
        self._folder = playground / JOB
        (self._folder / "input").mkdir(parents=True)

    def commit_of_next_row(self) -> str:
        """Add a row, and return the commit of the script that has processed it."""
        row = f"row {len(os.listdir(self._folder / 'input'))}"
        (self._folder / "input" / f"{row}.txt").write_text(row)
        return wait_until(lambda: self._commits().get(row), TIMEOUT_S, row)

    def _commits(self) -> dict[str, str]:
        with suppress(FileNotFoundError, pa.ArrowInvalid):
            rows = ds.dataset(self._folder / "output", format="parquet").to_table().to_pylist()
            return {row["value"]: row["commit"] for row in rows}
        return {}


@pytest.fixture
def playground(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def repository(playground: Path) -> Repository:
    """A repository with the first commit."""
    repository = Repository(playground / "repository", playground)
    repository.commit("first")
    return repository


@pytest.fixture
def airflow(
    playground: Path,
    repository: Repository,
    spark_connection: dict[str, str],  # noqa: F811
) -> Iterator[AirflowUnderTest]:
    """An Airflow that reads its DAGs from the repository."""
    bundle = {
        "name": "repository",
        "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
        "kwargs": {"repo_url": str(playground / "repository"), "tracking_ref": "main", "refresh_interval": 2},
    }
    config = {
        "dag_processor": {
            "dag_bundle_config_list": json.dumps([bundle]),
            "dag_bundle_storage_path": str(
                playground / "bundles"
            ),  # not the folder that all Airflows of a machine share
            "bundle_refresh_check_interval": "1",
        }
    }
    with AirflowUnderTest(playground / "airflow", playground / "dags", config=config, env=spark_connection) as airflow:
        yield airflow


def newest_commit(airflow: AirflowUnderTest) -> str:
    """Return the commit of the newest version of the DAG that Airflow knows."""
    versions = airflow.api._request("GET", f"/api/v2/dags/{JOB}/dagVersions")["dag_versions"]
    return str(max(versions, key=lambda version: version["version_number"])["bundle_version"])


def clear_on_latest_version(airflow: AirflowUnderTest, run: Run) -> None:
    body = {"dry_run": False, "dag_run_id": run.run_id, "task_ids": [TASK], "only_failed": False}
    airflow.api._request("POST", f"/api/v2/dags/{JOB}/clearTaskInstances", body | {"run_on_latest_version": True})


def until_recycled(run: Run) -> None:
    """Wait until two triggers of the job have been recycled, one of them after the call."""
    for _ in range(2):
        until_next_loop(run, run.owner())


def until_next_loop(run: Run, owner: str) -> None:
    wait_until(lambda: run.owner() != owner, TIMEOUT_S, "the next trigger")


def test_run_stays_on_its_commit_until_it_is_cleared_on_the_latest_version(
    airflow: AirflowUnderTest, repository: Repository, playground: Path, spark_cluster: LocalCluster
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    rows = Input(playground)
    run = Run(airflow, playground, JOB)
    run.until_executing(1)
    assert rows.commit_of_next_row() == "first"

    second = repository.commit("second")
    wait_until(lambda: newest_commit(airflow) == second, TIMEOUT_S, "the DAG of the second commit")
    until_recycled(run)
    assert (rows.commit_of_next_row(), run.status().epoch) == ("first", 1)

    airflow.api._request("POST", f"{API}/suspend", {})
    run.until_task("success")
    wait_until(lambda: airflow.api._client.post(f"{API}/resume", json={}).status_code == ACCEPTED, TIMEOUT_S, "resume")
    wait_until(lambda: run.status().epoch == 2, TIMEOUT_S, "the driver of the resumed job")
    run.until_executing(1)
    assert rows.commit_of_next_row() == "first"

    run.clear()
    until_recycled(run)
    assert (rows.commit_of_next_row(), run.status().epoch) == ("first", 2)

    if not has("resolve_run_on_latest_version"):
        return  # Before 3.3, Airflow moves only ended runs to the latest version.
    clear_on_latest_version(airflow, run)
    wait_until(lambda: run.status().epoch > 2, TIMEOUT_S, "the driver of the second commit")
    run.until_executing(1)
    assert rows.commit_of_next_row() == "second"
    airflow.api._request("POST", f"{API}/suspend", {})
    run.until_task("success")
