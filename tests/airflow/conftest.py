"""A real Airflow beside a real Spark: jobs of a few lines, and the connection between the two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import pytest

from airflow_adaptive.local.airflow import LocalAirflow
from airflow_adaptive.local.cluster import LocalCluster

SCRIPT = dedent(
    """
    import sys
    from airflow_adaptive.job import AdaptiveJob

    directory, bounded = sys.argv[1], sys.argv[2] == "bounded"


    def count(spark, parallelism):
        lines = spark.readStream.format("text").load(f"{directory}/input")
        writer = lines.writeStream.format("parquet").option("path", f"{directory}/output")
        return writer.trigger(availableNow=True) if bounded else writer.trigger(processingTime="1 second")


    AdaptiveJob(count).run()
    """
)

DAGS = dedent(
    """
    from airflow.sdk import DAG
    from airflow_adaptive.operators.adaptive_spark import AdaptiveSparkOperator
    from airflow_adaptive.sensors.spark_resources import SparkResourcesSensor

    SMALL = {{"driver_memory": "512m", "executor_memory": "512m", "resource_stabilization_timeout": "1 s"}}
    QUICK = SMALL | {{
        "scaling_interval_min": "2 s",
        "executing_stabilization_timeout": "1 s",
        "max_trigger_delay": "3 s",
        "stop_timeout": "8 s",
    }}

    def job(task_id, end="endless", **changes):
        return AdaptiveSparkOperator(
            task_id="job",
            job=task_id,
            application="{directory}/script.py",
            application_args=["{directory}/" + task_id, end],
            job_directory="file://{directory}/jobs",
            **(QUICK | {{"parallelism": (1, 2)}} | changes),
        )

    with DAG("bounded", schedule=None):
        SparkResourcesSensor(task_id="resources", parallelism=(1, 2), **SMALL) >> job("bounded", "bounded")

    with DAG("endless", schedule=None):
        job("endless", scaling_interval_min="10 s", slot_idle_timeout="2 s")

    with DAG("cleared", schedule=None):
        job("cleared")

    with DAG("marked", schedule=None):
        job("marked")

    with DAG("in_worker", schedule=None):
        job("in_worker", deferrable=False)

    with DAG("recycled", schedule=None):
        job("recycled", trigger_lifetime="10 s")
    """
)


@pytest.fixture(scope="session")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a script, DAGs, and input for each job."""
    directory = tmp_path_factory.mktemp("playground")
    (directory / "dags").mkdir()
    (directory / "script.py").write_text(SCRIPT)
    (directory / "dags" / "jobs.py").write_text(DAGS.format(directory=directory))
    for job in ("bounded", "endless", "cleared", "in_worker", "marked", "recycled"):
        (directory / job / "input").mkdir(parents=True)
        (directory / job / "input" / "lines.txt").write_text("one\ntwo\nthree\n")
    return directory


@pytest.fixture(scope="session")
def spark_connection(spark_master: LocalCluster) -> dict[str, str]:
    """Environment that makes the embedded cluster Airflow's default Spark connection."""
    extra = {"ui-port": urlsplit(spark_master.ui_url).port, "rest-port": urlsplit(spark_master.rest_url).port}
    connection = {"conn_type": "spark", "host": spark_master.master_url, "extra": extra}
    return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}


@pytest.fixture(scope="session")
def airflow(playground: Path, spark_connection: dict[str, str]) -> Iterator[LocalAirflow]:
    """One Airflow of four processes for all tests of a session."""
    with LocalAirflow(playground / "airflow", playground / "dags", env=spark_connection) as airflow:
        yield airflow
