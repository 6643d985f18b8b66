"""`@task.adaptive_spark` on a real Airflow and a real Spark: the function in the DAG file is the application."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq
import pytest

from airflow_adaptive.local.airflow import as_text, default_config
from airflow_adaptive.local.cluster import LocalCluster
from tests.integration.airflow.dags_test.test_dags_test import airflow

pytestmark = pytest.mark.long

FLEET = """
    import os.path

    from airflow.sdk import DAG, task

    with DAG("fleet", schedule=None):

        @task
        def jobs():
            return [{"job": "no id!"}, {"job": "copies"}]

        @task.adaptive_spark(
            job_directory="file://FOLDER/jobs", parallelism=(1, 2), driver_memory="512m", executor_memory="512m", conn_id="spark_default"
        )
        def copy(spark, parallelism, job, folder):
            lines = spark.readStream.format("text").load(os.path.join(folder, "input")).repartition(parallelism["job"])
            return lines.writeStream.format("parquet").option("path", f"{folder}/{job}").trigger(availableNow=True)

        copy.partial(folder="FOLDER").expand_kwargs(jobs())
"""

READS_GLOBALS = """
    from airflow.sdk import DAG, task

    FOLDER = "/data"

    with DAG("reads_globals", schedule=None):

        @task.adaptive_spark(job="copies", job_directory="file:///jobs", parallelism=1)
        def copy(spark, parallelism):
            return spark.readStream.text(FOLDER).writeStream.format("noop")

        copy()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark_connection: dict[str, str]) -> Path:
    """Airflow with the two DAG files."""
    tmp_path = tmp_path_factory.mktemp("decorator")
    (tmp_path / "dags").mkdir()
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "lines.txt").write_text("one\ntwo\n")
    (tmp_path / "dags" / "fleet.py").write_text(dedent(FLEET).replace("FOLDER", str(tmp_path)))
    (tmp_path / "dags" / "reads_globals.py").write_text(dedent(READS_GLOBALS))
    (tmp_path / "airflow.cfg").write_text(as_text(default_config(tmp_path, tmp_path / "dags", "http://127.0.0.1:1")))
    airflow(tmp_path, spark_connection, "db", "migrate")
    return tmp_path


def test_items_of_a_mapped_function_run_although_one_is_invalid(
    spark_cluster: LocalCluster, spark_connection: dict[str, str], home: Path
) -> None:
    spark_cluster.add_worker(cores=3, memory_mb=2048)
    output = airflow(home, spark_connection, "dags", "test", "fleet", succeeds=False)
    assert "job 'fleet:copy:no id!': " in output
    assert re.search(r"DagRun Finished: dag_id=fleet,.* state=failed,", output), output
    assert sorted(pq.read_table(home / "copies").column("value").to_pylist()) == ["one", "two"]


def test_function_that_reads_globals_is_an_import_error_of_its_dag_file(
    spark_connection: dict[str, str], home: Path
) -> None:
    output = airflow(
        home, spark_connection, *("dags", "list-import-errors", "--local", "--output", "json"), succeeds=False
    )
    assert "function 'copy' uses what is defined outside of it: FOLDER (line 10)." in output
    assert "pass values as its arguments" in output
    assert "fleet.py" not in output
