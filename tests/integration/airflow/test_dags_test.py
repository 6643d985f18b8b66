"""`airflow dags test`: the whole job in one process, without scheduler, triggerer or API server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.airflow import as_text, default_config
from airflow_adaptive.local.cluster import LocalCluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def airflow(home: Path, env: dict[str, str], *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        env=os.environ | env | {"AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
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
