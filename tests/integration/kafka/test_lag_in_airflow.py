"""The lag of a job on a real Airflow while no driver runs: the triggerer reads the brokers through a connection."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_adaptive.local.cluster import LocalCluster, LocalWorker
from airflow_adaptive.local.waiting import wait_until
from tests.support.airflow.airflow_under_test import AirflowUnderTest
from tests.support.kafka.broker import USER
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.driver_on_kafka import SCRIPT
from tests.support.kafka.jars import connector_jars

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

JOB = "lagging"

TIMEOUT_S = 300.0

DAG = dedent(
    """
    from airflow.sdk import DAG
    from airflow_adaptive.operators import AdaptiveSparkOperator

    with DAG("{job}", schedule=None):
        AdaptiveSparkOperator(
            task_id="job",
            job="{job}",
            kafka_conn_id="kafka_test",
            lag_alert_threshold="5 s",
            application="{directory}/script.py",
            application_args=["{directory}"],
            jars="{jars}",
            job_directory="file://{directory}/jobs",
            parallelism=1,
            driver_memory="512m",
            executor_memory="512m",
            resource_stabilization_timeout="1 s",
        )
    """
)


def connections(cluster: LocalCluster, kafka: KafkaCluster) -> dict[str, str]:
    """Return the environment with the connections to Spark and to Kafka. The driver gets its password through the former."""
    ports = {"ui-port": urlsplit(cluster.ui_url).port, "rest-port": urlsplit(cluster.rest_url).port}
    spark_extra = ports | {"secret-env": {"KAFKA_PASSWORD": kafka.password}}
    kafka_extra = {
        "bootstrap.servers": kafka.sasl_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka.ca),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": kafka.password,
    }
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": cluster.master_url, "extra": spark_extra}
        ),
        "AIRFLOW_CONN_KAFKA_TEST": json.dumps({"conn_type": "kafka", "extra": kafka_extra}),
    }


class LaggingJob:
    """The job, as a user sees it."""

    def __init__(self, airflow: AirflowUnderTest) -> None:
        """Start the job."""
        self._api = airflow.api
        wait_until(lambda: self._api.has_dag(JOB), TIMEOUT_S, f"DAG {JOB}")
        self._api.trigger(JOB)

    def wait(self, what: str, **expected: Any) -> None:
        """Wait until the REST API shows these values."""
        try:
            wait_until(lambda: expected.items() <= self.published().items(), TIMEOUT_S, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self.published()}") from error

    def published(self) -> dict[str, Any]:
        """Return the state of the job, and its newest lag."""
        found = self._api._find(f"/adaptive/api/v1/jobs/{JOB}") or {}
        newest = found.get("metrics") or {}
        return {
            "state": found.get("state"),
            "rows": newest.get("backlog"),
            "lag_s": newest.get("lag_s"),
            "unknown": found.get("lag_unknown_since") is not None,
            "alert": found.get("lag_alert") is not None,
        }


@pytest.fixture
def airflow(spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path) -> Iterator[AirflowUnderTest]:
    """An Airflow with the DAG of the job, which reads a topic with five records."""
    kafka.clients.create_topic(topic, 2)
    kafka.clients.produce(topic, ["a"] * 5)
    source = {"subscribe": topic, "startingOffsets": "earliest"}
    (tmp_path / "options.json").write_text(json.dumps({"broker": kafka.sasl_options, "source": source, "sink": None}))
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "dags").mkdir()
    jars = ",".join(map(str, connector_jars()))
    (tmp_path / "dags" / "dag.py").write_text(DAG.format(job=JOB, directory=tmp_path, jars=jars))
    env = connections(spark_cluster, kafka)
    with AirflowUnderTest(tmp_path / "airflow", tmp_path / "dags", env=env) as airflow:
        yield airflow


def add_worker(cluster: LocalCluster) -> LocalWorker:
    return cluster.add_worker(cores=2, memory_mb=1536)


def open_page(browser: Any, airflow: AirflowUnderTest) -> Any:
    """Return the page of the job, as its user sees it."""
    context = browser.new_context()
    token = airflow.api._client.headers["Authorization"].removeprefix("Bearer ")
    context.add_cookies([{"name": "_token", "value": token, "url": airflow.url}])
    page = context.new_page()
    page.goto(f"{airflow.url}/adaptive/ui/jobs/{JOB}")
    return page


def test_lag_is_measured_while_the_job_waits_for_slots(
    airflow: AirflowUnderTest, spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, browser: Any
) -> None:
    from playwright.sync_api import expect  # noqa: PLC0415

    worker = add_worker(spark_cluster)
    job = LaggingJob(airflow)
    job.wait("a job without unread rows", state="Executing", rows=0, lag_s=0.0)

    spark_cluster.kill_worker(worker)
    job.wait("a job without a driver", state="WaitingForResources")
    kafka.clients.produce(topic, ["b"] * 7)
    job.wait("the rows that arrived without a driver", state="WaitingForResources", rows=7)
    job.wait("the alert about their age", state="WaitingForResources", alert=True)

    page = open_page(browser, airflow)
    expect(page.get_by_text(re.compile("Waiting for resources")).first).to_be_visible()
    kafka.brokers[0].freeze()
    try:
        expect(page.get_by_text(re.compile(r"Lag unknown since \d\d:\d\d"))).to_be_visible(timeout=TIMEOUT_S * 1000)
        job.wait("an unknown lag", state="WaitingForResources", unknown=True, lag_s=None)
    finally:
        kafka.brokers[0].thaw()
    job.wait("a lag that is known again", state="WaitingForResources", unknown=False, rows=7)
    expect(page.get_by_text("Lag unknown since")).to_have_count(0)

    add_worker(spark_cluster)
    job.wait("the rows that the next driver has read", state="Executing", rows=0, lag_s=0.0, alert=False)
