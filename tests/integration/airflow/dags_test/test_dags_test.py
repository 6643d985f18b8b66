"""`airflow dags test`: the whole job in one process, without scheduler, triggerer or API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.airflow import as_text, default_config
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.servers.reverse_proxy import ReverseProxy

pytestmark = pytest.mark.long


ON_KUBERNETES = """
from airflow.sdk import DAG
from airflow_adaptive.operators import AdaptiveSparkOperator

with DAG("on_kubernetes", schedule=None):
    AdaptiveSparkOperator(
        task_id="job", job="job", application={script!r}, job_directory="file://{folder}/jobs", conn_id="spark_k8s", image="spark:4.2", parallelism=1
    )
"""


FAILS_EARLY = """
from airflow.sdk import DAG
from airflow_adaptive.operators import AdaptiveSparkOperator

with DAG("fails_early", schedule=None):
    for task, changes in {{"template": {{"conf": {{"spark.a": "{{{{ gone.x }}}}"}}}}, "declaration": {{"driver_cores": 0}}}}.items():
        AdaptiveSparkOperator(task_id=task, job=task, application={script!r}, job_directory="file://{folder}/jobs", parallelism=1, **changes)
"""


def airflow(home: Path, env: dict[str, str], *arguments: str, succeeds: bool = True) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        env=os.environ | env | {"AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode == 0) is succeeds, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_bounded_job_runs_to_its_end(
    spark_cluster: LocalCluster, playground: Path, spark_connection: dict[str, str], tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    (tmp_path / "airflow.cfg").write_text(as_text(default_config(tmp_path, playground / "dags", "http://127.0.0.1:1")))
    airflow(tmp_path, spark_connection, "db", "migrate")
    output = airflow(tmp_path, spark_connection, "dags", "test", "bounded")
    assert re.search(r"DagRun Finished: dag_id=bounded,.* state=success,", output), output
    written = pq.read_table(playground / "bounded" / "output").column("value").to_pylist()
    assert sorted(written) == ["one", "three", "two"]


def test_missing_connection_of_kubernetes_never_falls_back_to_the_default_kubeconfig(tmp_path: Path) -> None:
    """The user has the kubeconfig of another cluster, and Airflow has no connection of type `kubernetes`."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "job.py").write_text("")
    (tmp_path / "dags" / "dag.py").write_text(ON_KUBERNETES.format(script=str(tmp_path / "job.py"), folder=tmp_path))
    (tmp_path / "airflow.cfg").write_text(as_text(default_config(tmp_path, tmp_path / "dags", "http://127.0.0.1:1")))
    with ReverseProxy("http://127.0.0.1:1") as other:  # The other cluster, at which no request may arrive.
        kubeconfig = {
            "current-context": "other",
            "contexts": [{"name": "other", "context": {"cluster": "other", "user": "me"}}],
            "clusters": [{"name": "other", "cluster": {"server": other.url}}],
            "users": [{"name": "me", "user": {"token": "mine"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
        connection = {"conn_type": "spark", "host": f"k8s://{other.url}"}
        env = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "AIRFLOW_CONN_SPARK_K8S": json.dumps(connection)}
        airflow(tmp_path, env, "db", "migrate")
        output = airflow(tmp_path, env, "dags", "test", "on_kubernetes", succeeds=False)
        assert "connection 'kubernetes_default' is not defined: add it" in output
        assert other.requests == []


def test_log_of_a_task_that_fails_early_contains_no_other_error(tmp_path: Path) -> None:
    """Airflow reads the XCom of each link after the task, and logs those that do not exist as errors."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "job.py").write_text("")
    (tmp_path / "dags" / "dag.py").write_text(FAILS_EARLY.format(script=str(tmp_path / "job.py"), folder=tmp_path))
    (tmp_path / "airflow.cfg").write_text(as_text(default_config(tmp_path, tmp_path / "dags", "http://127.0.0.1:1")))
    env = {"AIRFLOW_CONN_SPARK_DEFAULT": "spark://127.0.0.1:1"}
    airflow(tmp_path, env, "db", "migrate")
    output = airflow(tmp_path, env, "dags", "test", "fails_early", succeeds=False)
    assert "'gone' is undefined" in output
    assert "driver_cores 0 must be 1 or more" in output
    assert "XCom not found" not in output
