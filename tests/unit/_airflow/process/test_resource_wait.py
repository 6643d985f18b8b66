"""The wait for resources ends when a job would get its slots, at its deadline, or at an error that lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._airflow.process.resource_wait import WantedResources, wait_for_resources, wait_for_slots
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.ports import MIB, ClusterRefusedError, ClusterUnreachableError, Limit, LimitKind
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.spec import DriverShape, ExecutorShape
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.manual_clock import START, ManualClock
from tests.lab.simulation.one_job import small_job
from tests.support.servers.fake_master import HOST, FakeMaster


def test_unusable_connection_is_an_error_event_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_NOWHERE", raising=False)
    event = asyncio.run(wait_for_slots({}, ConnectionIds("nowhere"), "2026-01-01T00:00:00+00:00"))
    assert event["status"] == "error"
    assert "nowhere" in event["message"]


def wait_on_master(
    monkeypatch: pytest.MonkeyPatch, timeout: timedelta, check: Callable[[object], Awaitable[None]] | None = None
) -> dict[str, Any]:
    """Wait for two slots, on a cluster with two slots and a core for the driver."""
    if check is not None:
        monkeypatch.setattr(StandaloneCluster, "check", check)
    job = small_job("job", (2, 4), {"resource_stabilization_timeout": "0 s"})
    wanted = {"graph": job.graph, "options": job.options, "executor": job.executor, "driver": job.driver}
    with FakeMaster() as master:
        master.cluster.add_worker(cores=3, memory_mb=8192)
        ports = f"ui-port={master.port}&rest-port={master.port}"
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", f"spark://{HOST}:7077?{ports}")
        encoded = {name: encode(value) for name, value in wanted.items()}
        until = (datetime.now(UTC) + timeout).isoformat()
        return asyncio.run(wait_for_slots(encoded, ConnectionIds("spark_test"), until))


def test_slots_that_are_free_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    event = wait_on_master(monkeypatch, timedelta(minutes=1))
    (worker,) = event.pop("workers").items()
    assert (event, worker[1]) == ({"status": "found", "slots": 2, "parallelism": {"job": 2}}, 2)


def test_deadline_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_on_master(monkeypatch, timedelta(0)) == {"status": "timeout"}


def test_cluster_that_accepts_no_driver_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_client: object, *_: object) -> None:
        raise ClusterRefusedError("the account may not create pods: bind the Role")

    event = wait_on_master(monkeypatch, timedelta(minutes=1), check)
    assert event == {"status": "error", "message": "the account may not create pods: bind the Role [cluster-refused]"}


def test_cluster_that_cannot_be_checked_now_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_client: object, *_: object) -> None:
        raise ClusterUnreachableError("no answer")

    assert wait_on_master(monkeypatch, timedelta(minutes=1), check)["status"] == "found"


Waiting = Callable[[], dict[str, Any]]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def wait(cluster: FakeCluster, clock: ManualClock) -> Waiting:
    """Wait at most a minute for the slots of a job with the bounds 2..4."""

    def wait() -> dict[str, Any]:
        return asyncio.run(
            wait_for_resources(
                WantedResources(
                    graph=JobGraph.single("job", ParallelismRange(2, 4)),
                    options=Options(),
                    executor=ExecutorShape(cores=1, memory_mb=512),
                    driver=DriverShape(cores=1, memory_mb=512),
                ),
                cluster.snapshot,
                clock,
                START + timedelta(minutes=1),
            )
        )

    return wait


def test_slots_for_the_upper_bounds_are_found_at_once(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    found = wait()
    assert (found["slots"], found["parallelism"]) == (4, {"job": 4})
    assert sum(found["workers"].values()) == 4
    assert clock.elapsed == 0


def test_slots_for_the_lower_bounds_are_found_after_the_stabilization_timeout(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock
) -> None:
    cluster.add_worker(cores=3, memory_mb=4096)
    assert wait()["parallelism"] == {"job": 2}
    assert clock.elapsed == pytest.approx(10, abs=1)


def test_wait_reports_the_limit_that_keeps_the_job_from_its_slots(
    wait: Waiting, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    cluster.limits = [Limit(kind=LimitKind.QUOTA, name="team-a", memory_bytes=1224 * MIB)]
    with caplog.at_level(logging.INFO):
        assert wait() == {"status": "timeout"}
    assert caplog.messages == ["1 slot: quota `team-a` allows 200 MiB more"]


def test_wait_ends_when_a_worker_joins(wait: Waiting, cluster: FakeCluster, clock: ManualClock) -> None:
    clock.at(30, lambda: cluster.add_worker(cores=5, memory_mb=4096))
    assert wait()["status"] == "found"
    assert clock.elapsed == pytest.approx(30, abs=1)


def test_wait_continues_while_the_master_does_not_answer(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock
) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    cluster.reachable = False
    clock.at(30, lambda: setattr(cluster, "reachable", True))
    assert wait()["status"] == "found"


@pytest.mark.parametrize("cores", [1, 2])
def test_wait_times_out_without_slots_for_the_driver_and_the_lower_bounds(
    wait: Waiting, cluster: FakeCluster, clock: ManualClock, cores: int
) -> None:
    cluster.add_worker(cores=cores, memory_mb=4096)
    assert wait() == {"status": "timeout"}
    assert clock.elapsed == pytest.approx(60, abs=1)


def test_wait_reserves_no_slots(wait: Waiting, cluster: FakeCluster) -> None:
    cluster.add_worker(cores=5, memory_mb=4096)
    wait()
    assert not cluster.submissions
