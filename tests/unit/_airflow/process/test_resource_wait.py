"""The wait for the slots of a job on the cluster of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process.process_resources import ConnectionIds
from airflow_adaptive._airflow.process.resource_wait import wait_for_slots
from airflow_adaptive._clusters.standalone.client import StandaloneCluster
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterUnreachableError
from tests.lab.simulation.one_job import small_job
from tests.support.servers.fake_master import HOST, FakeMaster


def test_unusable_connection_is_an_error_event_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_NOWHERE", raising=False)
    event = asyncio.run(wait_for_slots({}, ConnectionIds("nowhere"), "2026-01-01T00:00:00+00:00"))
    assert event["status"] == "error"
    assert "nowhere" in event["message"]


def wait(
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
    event = wait(monkeypatch, timedelta(minutes=1))
    (worker,) = event.pop("workers").items()
    assert (event, worker[1]) == ({"status": "found", "slots": 2, "parallelism": {"job": 2}}, 2)


def test_deadline_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait(monkeypatch, timedelta(0)) == {"status": "timeout"}


def test_cluster_that_accepts_no_driver_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_client: object, *_: object) -> None:
        raise ClusterRefusedError("the account may not create pods: bind the Role")

    event = wait(monkeypatch, timedelta(minutes=1), check)
    assert event == {"status": "error", "message": "the account may not create pods: bind the Role"}


def test_cluster_that_cannot_be_checked_now_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(_client: object, *_: object) -> None:
        raise ClusterUnreachableError("no answer")

    assert wait(monkeypatch, timedelta(minutes=1), check)["status"] == "found"
