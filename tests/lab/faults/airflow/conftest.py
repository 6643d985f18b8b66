"""One Airflow for all cases of a shard, and a job for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.lab.faults.airflow.airflow_job import AirflowJob
from tests.lab.faults.conftest import WORKER
from tests.support.airflow.airflow_under_test import AirflowUnderTest

CONFIG = {
    "triggerer": {"triggerer_health_check_threshold": "8"},
    "scheduler": {
        "parsing_cleanup_interval": "5",
        "task_instance_heartbeat_timeout": "20",
        "task_instance_heartbeat_timeout_detection_interval": "5",
    },
    "dag_processor": {"refresh_interval": "2", "min_file_process_interval": "2", "stale_dag_threshold": "5"},
    "workers": {"missing_dag_retry_delay": "5"},
}
"""So that what Airflow does after minutes happens after seconds."""


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dags")


@pytest.fixture(scope="session")
def fault_airflow(
    fault_cluster: LocalCluster, dags: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AirflowUnderTest]:
    rest, ui = (urlsplit(url).port for url in (fault_cluster.rest_url, fault_cluster.ui_url))
    host, _, port = fault_cluster.master_url.rpartition(":")
    connection = {"conn_type": "spark", "host": host, "port": int(port), "extra": {"rest-port": rest, "ui-port": ui}}
    env = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
    with AirflowUnderTest(tmp_path_factory.mktemp("airflow"), dags, config=CONFIG, env=env) as airflow:
        yield airflow


@pytest.fixture
def job(
    fault_airflow: AirflowUnderTest,
    fault_cluster: LocalCluster,
    dags: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[AirflowJob]:
    """A job of this case's name that has not been deployed, on a cluster with room for two drivers."""
    if not fault_cluster.workers:
        fault_cluster.add_worker(**WORKER)
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")[-40:].strip("_")
    airflow_job = AirflowJob(fault_airflow, fault_cluster, dags, tmp_path, name)
    yield airflow_job
    airflow_job.remove()
