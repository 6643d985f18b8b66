"""The sensor: what it waits for, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)

from airflow_adaptive.runtime.resource_wait import AvailableResources, wait_for_resources
from airflow_adaptive.runtime.spec import DriverShape, ExecutorShape
from airflow_adaptive.scheduler.config.options import Options
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.snapshot import decode
from airflow_adaptive.sensors.spark_resources import SparkResourcesSensor
from airflow_adaptive.testing.fakes.cluster import FakeCluster
from airflow_adaptive.testing.fakes.manual_clock import START, ManualClock
from airflow_adaptive.triggers.spark_resources import SparkResourcesTrigger
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error

Waiting = Callable[[], AvailableResources | None]

pytestmark = pytest.mark.usefixtures("spark_default")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def wait(cluster: FakeCluster, clock: ManualClock) -> Waiting:
    """Wait at most a minute for what a sensor with bounds 2..4 wants."""

    def wait() -> AvailableResources | None:
        wanted = sensor(parallelism=[2, 4], executor_memory="512m", driver_memory="512m")._wanted()
        return asyncio.run(
            wait_for_resources(
                decode(JobGraph, wanted["graph"]),
                decode(Options, wanted["options"]),
                decode(ExecutorShape, wanted["executor"]),
                decode(DriverShape, wanted["driver"]),
                cluster.snapshot,
                clock,
                START + timedelta(minutes=1),
            )
        )

    return wait


def sensor(**changes: Any) -> SparkResourcesSensor:
    return SparkResourcesSensor(**({"task_id": "resources", "conn_id": "spark_default"} | changes))


def deferral(sensor: SparkResourcesSensor) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        sensor.execute({})
    return raised.value


# ---- the wait -------------------------------------------------------------------------------------------------------


def test_all_that_is_wanted_is_found_at_once(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    found = wait()
    assert found is not None
    assert (found.slots, found.parallelism) == (4, {"job": 4})
    assert sum(found.workers.values()) == 4
    assert clock.elapsed == 0


def test_the_minimum_is_found_when_it_has_been_there_for_long_enough(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock
) -> None:
    cluster.add_worker(cores=3, memory_mb=4096)
    found = wait()
    assert found is not None
    assert found.parallelism == {"job": 2}
    assert clock.elapsed == pytest.approx(10, abs=1)


def test_a_new_worker_is_waited_for(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    clock.at(30, lambda: cluster.add_worker(cores=5, memory_mb=4096))
    found = wait()
    assert found is not None
    assert clock.elapsed == pytest.approx(30, abs=1)


def test_a_master_that_does_not_answer_is_waited_for(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    cluster.reachable = False
    clock.at(30, lambda: setattr(cluster, "reachable", True))
    assert wait() is not None


@pytest.mark.parametrize("cores", [1, 2])
def test_less_than_driver_and_minimum_is_nothing(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock, cores: int
) -> None:
    cluster.add_worker(cores=cores, memory_mb=4096)
    assert wait() is None
    assert clock.elapsed == pytest.approx(60, abs=1)


def test_nothing_is_reserved(wait: Waiting, cluster: FakeCluster) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    wait()
    assert not cluster.submissions


# ---- the operator ---------------------------------------------------------------------------------------------------


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
        ({"driver_memory": "much"}, "'much' is no memory size"),
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
