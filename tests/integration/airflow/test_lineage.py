"""OpenLineage in Airflow and in Spark: the runs of the tasks of a real Airflow are the parents of Spark's own events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import dedent

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.integration.airflow.conftest import ORDINARY_SCRIPT, SCRIPT, SECRET
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.jars import OPENLINEAGE
from tests.support.servers.lineage_server import LineageServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 300.0

DAGS = dedent(
    """
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    SHARED = {{
        "job_directory": "file://{folder}/jobs",
        "jars": {jars},
        "conf": {{"spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener"}},
        "driver_memory": "512m",
        "executor_memory": "512m",
    }}

    with DAG("stream", schedule=None):
        AdaptiveSparkOperator(
            task_id="job", job="stream", application="{folder}/script.py", application_args=["{folder}/stream", "bounded"],
            resource_stabilization_timeout="1 s", parallelism=1, **SHARED
        )

    with DAG("batch", schedule=None):
        AdaptiveSparkOperator(
            task_id="job", job="batch", application="{folder}/batch.py", application_args=["{folder}/batch", "{secret}"],
            job_type="batch", env_vars={{"SPARK_LOCAL_IP": "127.0.0.1"}}, **SHARED
        )
    """
)


@pytest.fixture(scope="module")
def receiver() -> Iterator[LineageServer]:
    with LineageServer() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def airflow_with_lineage(
    tmp_path_factory: pytest.TempPathFactory, spark_connection: dict[str, str], receiver: LineageServer
) -> Iterator[AirflowUnderTest]:
    """An Airflow whose administrator has turned lineage on for Airflow and Spark."""
    OPENLINEAGE.resolve()
    folder = tmp_path_factory.mktemp("lineage")
    (folder / "dags").mkdir()
    (folder / "script.py").write_text(SCRIPT)
    (folder / "batch.py").write_text(ORDINARY_SCRIPT)
    jars = [str(jar) for jar in OPENLINEAGE.jars]
    (folder / "dags" / "jobs.py").write_text(DAGS.format(folder=folder, jars=jars, secret=SECRET))
    for job in ("stream", "batch"):
        (folder / job / "input").mkdir(parents=True)
        (folder / job / "input" / "lines.txt").write_text("one\ntwo\n")
    transport = {"type": "http", "url": f"http://127.0.0.1:{receiver.port}", "endpoint": "api/v1/lineage"}
    options = {
        "transport": json.dumps(transport),
        "spark_inject_parent_job_info": "True",
        "spark_inject_transport_info": "True",
    }
    env = spark_connection | {f"AIRFLOW__OPENLINEAGE__{name.upper()}": value for name, value in options.items()}
    with AirflowUnderTest(folder / "airflow", folder / "dags", env=env) as airflow:
        yield airflow


@pytest.mark.parametrize("job", ["stream", "batch"])
def test_run_of_the_task_is_the_parent_of_the_events_of_spark(
    airflow_with_lineage: AirflowUnderTest, receiver: LineageServer, spark_cluster: LocalCluster, job: str
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=1536)
    api = airflow_with_lineage.api
    wait_until(lambda: api.has_dag(job), TIMEOUT_S, f"DAG {job}")
    run = api.trigger(job)
    wait_until(lambda: api.run_state(job, run) in ("success", "failed"), TIMEOUT_S, f"the end of {job}")
    assert api.run_state(job, run) == "success", api.task_log(job, run, "job")

    def ended() -> list[dict[str, object]]:
        return [
            event
            for event in receiver.events
            if event["job"]["name"] == f"{job}.job" and event["eventType"] == "COMPLETE"
        ]

    wait_until(ended, TIMEOUT_S, "Airflow's event of the end of the task")
    (task,) = receiver.runs(f"{job}.job")
    children = receiver.children(task)
    assert {"START", "COMPLETE"} <= {event["eventType"] for event in children}
    assert all("spark" in event["producer"] for event in children)
    assert ended()[0]["run"]["facets"]["adaptive_job"]["outcome"] == "FINISHED"  # type: ignore[index]
