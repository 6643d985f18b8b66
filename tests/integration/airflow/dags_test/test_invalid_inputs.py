"""Invalid inputs as a user of `airflow dags test` sees them, on a real Spark: the log names the thing and the remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus, decode_document
from airflow_adaptive.local.airflow import as_text, default_config
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.conftest import SCRIPT
from tests.integration.airflow.dags_test.test_dags_test import airflow
from tests.integration.spark.cluster.test_master import KEY, PROTECTED, jws
from tests.support.driver.dependencies import ivy_properties

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 300.0

TOKEN_S = 60
"""Lifetime of a token that is renewed until the job executes."""

DAGS = dedent(
    """
    from airflow.sdk import DAG, task
    from airflow_adaptive.operators import AdaptiveSparkOperator

    SHARED = {{
        "application": "{folder}/script.py",
        "application_args": ["{folder}", "endless"],
        "job_directory": "file://{folder}/jobs",
        "parallelism": 1,
        "driver_memory": "512m",
        "executor_memory": "512m",
        "resource_stabilization_timeout": "1 s",
    }}

    with DAG("items", schedule=None):

        @task
        def items():
            return [{{"job": "no id!"}}, {{"job": "a", "num_executors": 4}}, {{"job": "b", "archives": ["{folder}/model.zip"]}}]

        AdaptiveSparkOperator.partial(task_id="job", **SHARED).expand_kwargs(items())

    with DAG("packages", schedule=None):
        AdaptiveSparkOperator(task_id="job", job="packages", packages="org.example:routes:2.0", conf={ivy}, retries=2, **SHARED)

    with DAG("token", schedule=None):
        AdaptiveSparkOperator(task_id="job", job="token", **SHARED)
    """
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an Airflow with the DAGs."""
    folder = tmp_path_factory.mktemp("invalid")
    (folder / "dags").mkdir()
    (folder / "input").mkdir()
    (folder / "input" / "1.txt").write_text("one\n")
    (folder / "model.zip").write_text("not a zip file")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "dags" / "jobs.py").write_text(DAGS.format(folder=folder, ivy=ivy_properties(folder)))
    (folder / "airflow.cfg").write_text(as_text(default_config(folder, folder / "dags", "http://127.0.0.1:1")))
    airflow(folder, {}, "db", "migrate")
    return folder


def test_each_invalid_item_of_a_fleet_names_its_error_and_no_other(
    home: Path, spark_connection: dict[str, str]
) -> None:
    output = airflow(home, spark_connection, "dags", "test", "items", succeeds=False)
    for message in (
        "job id 'no id!' must match",
        "AdaptiveSparkOperator has no parameter 'num_executors': use parallelism=(lower, upper)",
        f"job 'items:job:b': archives: '{home}/model.zip' has the name of an archive, and its content is not an archive",
    ):
        assert message in output
    assert "XCom not found" not in output


def test_error_of_ivy_is_the_error_of_the_task_which_is_not_tried_again(
    home: Path, spark_cluster: LocalCluster, spark_connection: dict[str, str]
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1536)
    output = airflow(home, spark_connection, "dags", "test", "packages", succeeds=False)
    assert "job 'packages' failed: " in output
    assert "the newest published version of org.example:routes is 1.2" in output
    assert "up_for_retry" not in output.lower()


class ConnectionFile:
    """A connection in a secrets backend that an administrator renews."""

    def __init__(self, file: Path, cluster: LocalCluster) -> None:
        ports = {"ui-port": urlsplit(cluster.ui_url).port, "rest-port": urlsplit(cluster.rest_url).port}
        self._connection = {"conn_type": "adaptive_spark", "host": cluster.master_url, "extra": ports}
        self._file = file
        self.expires_at = 0
        backend = "airflow.secrets.local_filesystem.LocalFilesystemBackend"
        kwargs = json.dumps({"connections_file_path": str(file)})
        self.env = {"AIRFLOW__SECRETS__BACKEND": backend, "AIRFLOW__SECRETS__BACKEND_KWARGS": kwargs}

    def renew(self, lifetime_s: int) -> None:
        self.expires_at = int(time.time()) + lifetime_s
        token = jws(KEY, exp=self.expires_at)
        partial = self._file.with_name("partial.json")
        partial.write_text(json.dumps({"spark_default": self._connection | {"password": token}}))
        partial.replace(self._file)


@contextmanager
def running(home: Path, env: dict[str, str], dag: str) -> Iterator[Path]:
    """Run `airflow dags test` until the block ends, and return the file with its output."""
    output = home / f"{dag}.log"
    with output.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "dags", "test", dag],
            env=os.environ | env | {"AIRFLOW_HOME": str(home)},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield output
    finally:
        process.kill()
        process.wait()


def driver(home: Path) -> str | None:
    """Return the id of the driver; None while the driver replaces its status."""
    try:
        return decode_document(DriverStatus, (home / "jobs" / "token" / "status.json").read_bytes()).submission_id
    except FileNotFoundError:
        return None


def test_job_outlives_its_token_and_the_log_names_the_connection_of_the_token(home: Path) -> None:
    with LocalCluster(properties=PROTECTED) as cluster:
        cluster.add_worker(cores=2, memory_mb=1536)
        connection = ConnectionFile(home / "connections.json", cluster)

        def has_output(files: int) -> bool:
            return len([*(home / "output").glob("*.parquet")]) >= files

        def executes() -> bool:
            connection.renew(TOKEN_S)
            return has_output(1)

        connection.renew(TOKEN_S)
        with running(home, connection.env, "token") as log:
            wait_until(executes, TIMEOUT_S, "the output of the job")
            wait_until(lambda: time.time() > connection.expires_at, TIMEOUT_S, "the end of the token")
            (home / "input" / "2.txt").write_text("two\n")
            wait_until(lambda: has_output(2), TIMEOUT_S, "further output of the job")
            cluster.kill_driver(wait_until(lambda: driver(home), TIMEOUT_S, "the id of the driver"))
            refused = (
                "set the bearer token that the master's filter requires as the password of connection 'spark_default'"
            )
            wait_until(lambda: refused in log.read_text(), TIMEOUT_S, "the message about the token")
            connection.renew(3600)
            (home / "input" / "3.txt").write_text("three\n")
            wait_until(lambda: has_output(3), TIMEOUT_S, "the output of the next driver")
