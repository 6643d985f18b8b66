"""The sensor: what it waits for, and how it ends."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)
from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._engine.spec import ExecutorShape
from airflow_adaptive.sensors.spark_resources import SparkResourcesSensor
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger
from tests.support.airflow.airflow_versions import TaskDeferred
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error

pytestmark = pytest.mark.usefixtures("spark_default")


def sensor(**changes: Any) -> SparkResourcesSensor:
    return SparkResourcesSensor(**({"task_id": "resources", "conn_id": "spark_default"} | changes))


def deferral(sensor: SparkResourcesSensor) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({})
    return raised.value


def test_waits_in_the_triggerer_until_its_timeout() -> None:
    deferred = deferral(sensor(parallelism=(1, 2), timeout=60))
    assert isinstance(deferred.trigger, SparkResourcesTrigger)
    assert deferred.method_name == "execute_complete"
    left = datetime.fromisoformat(deferred.trigger.until) - datetime.now(UTC)
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)


def test_wants_what_the_graph_of_the_job_wants() -> None:
    graph = JobGraph(job="j", vertices=(JobVertex(name="read", parallelism=ParallelismRange(1, 8)),))
    deferred = deferral(sensor(job_graph=graph))
    assert isinstance(deferred.trigger, SparkResourcesTrigger)
    assert decode(JobGraph, deferred.trigger.wanted["graph"]) == graph


def test_what_was_found_is_the_result() -> None:
    found = {"slots": 3, "parallelism": {"job": 3}, "workers": {"w": 3}}
    assert sensor().execute_complete({}, {"status": "found"} | found) == found


@pytest.mark.parametrize(
    ("changes", "event", "error"),
    [
        ({}, {"status": "timeout"}, AirflowSensorTimeout),
        ({"soft_fail": True}, {"status": "timeout"}, AirflowSkipException),
        ({}, {"status": "error", "message": "no such connection"}, AirflowException),
    ],
)
def test_an_unhappy_end_is_reported(changes: dict[str, Any], event: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        sensor(**changes).execute_complete({}, event)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"parallelism": (4, 1)}, "lower bound 4"),
        ({"driver_memory": "much"}, "'much' is not a memory size"),
        ({"resource_stabilization_timeout": "soon"}, "resource_stabilization_timeout"),
    ],
)
def test_bad_input_names_the_thing(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(AirflowFailException) as raised:
        sensor(**changes).execute({})
    assert named in str(raised.value)


def test_waits_in_the_worker_if_it_is_not_deferrable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://127.0.0.1:1?ui-port=1")
    with pytest.raises(AirflowSensorTimeout, match="'spark_default' has too few slots"):
        sensor(deferrable=False, timeout=0).execute({})


def test_connection_that_is_not_there_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeComms.install(monkeypatch).error = api_server_error()
    with pytest.raises(AirflowException, match="'nowhere' is not defined"):
        sensor(deferrable=False, conn_id="nowhere").execute({})


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_K8S", '{"conn_type": "spark", "host": "k8s://https://api:6443"}')
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", '{"conn_type": "kubernetes", "extra": {"in_cluster": true}}')


@pytest.mark.usefixtures("kubernetes")
def test_sensor_calculates_the_request_of_a_pod_as_the_job_does() -> None:
    conf = {"spark.executor.memoryOverhead": "512m"}
    with pytest.raises(TaskDeferred) as deferred:
        sensor(conn_id="spark_k8s", namespace="team-b", conf=conf, tolerations=[{"operator": "Exists"}]).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, SparkResourcesTrigger)
    assert trigger.connections == asdict(ConnectionIds("spark_k8s", "kubernetes_default", "team-b"))
    assert decode(ExecutorShape, trigger.wanted["executor"]).request.memory_bytes == (1024 + 512) << 20


@pytest.mark.usefixtures("kubernetes")
def test_sensor_reports_all_violations_on_kubernetes() -> None:
    with pytest.raises(AirflowFailException) as raised:
        sensor(
            conn_id="spark_k8s", conf={"spark.executor.memoryOverhead": "much"}, driver_pod_template={"kind": "Job"}
        ).execute({})
    for thing in ("memoryOverhead", "driver_pod_template has kind 'Job'"):
        assert thing in str(raised.value)
    assert "image" not in str(raised.value)
