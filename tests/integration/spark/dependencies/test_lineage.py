"""OpenLineage's Spark integration in a real driver: Spark's own events name the run of the task as their parent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_adaptive._airflow.declaration.spark_submit import Dependencies
from airflow_adaptive._core.protocol.documents import Action
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import DriverOnCluster, Input, plan
from tests.support.jars import OPENLINEAGE

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

RUN = "01940000-0000-7000-8000-000000000001"

COPY = """
import sys
from airflow_adaptive.job import AdaptiveJob

def copy(spark, parallelism):
    rows = spark.readStream.schema("id long").json(sys.argv[1] + "/in")
    return rows.writeStream.format("json").option("path", sys.argv[1] + "/out").trigger(availableNow=True)

AdaptiveJob(copy).run()
"""


def test_events_of_spark_have_the_run_of_the_task_as_their_parent(spark_cluster: LocalCluster, tmp_path: Path) -> None:
    OPENLINEAGE.resolve()
    spark_cluster.add_worker(cores=2, memory_mb=1024)
    driver = DriverOnCluster(spark_cluster, tmp_path)
    Input(tmp_path).write(1)
    driver.direct(Action.RUN, 1, plan(1))
    events = tmp_path / "events.json"
    conf = {
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": str(events),
        "spark.openlineage.parentJobNamespace": "airflow",
        "spark.openlineage.parentJobName": "flights.departures",
        "spark.openlineage.parentRunId": RUN,
    }
    driver.submit(COPY, 1, conf, dependencies=Dependencies(jars=[str(jar) for jar in OPENLINEAGE.jars]))
    assert driver.wait_end() == "FINISHED"
    found = [json.loads(line) for line in events.read_text().splitlines()]
    parents = {event["run"]["facets"]["parent"]["run"]["runId"] for event in found if "." not in event["job"]["name"]}
    assert parents == {RUN}
    assert found[0]["eventType"] == "START"
