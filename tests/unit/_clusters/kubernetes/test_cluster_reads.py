"""Clients of the same cluster with the same credentials share connections, watches and reads."""

from __future__ import annotations

import asyncio

import pytest

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import ClusterReads, KubernetesCluster
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.fake_api import FakeApi

pytestmark = pytest.mark.asyncio


def client_of(server: FakeApi, namespace: str, cores: int) -> KubernetesCluster:
    address = KubernetesAddress(server="https://api", namespace=namespace, max_cpu_millicores=1000 * cores)
    return KubernetesCluster(address, server, SystemClock())


async def test_clients_of_one_namespace_share_one_list_and_watch(server: FakeApi) -> None:
    """Their connections differ, for example in the cap."""
    first, second = client_of(server, "team-a", 1), client_of(server, "team-a", 2)
    snapshots = [await client.snapshot() for client in (first, second)]
    assert [snapshot.limits[0].cpu_millicores for snapshot in snapshots] == [1000, 2000]
    await first.close()
    await second.snapshot()
    assert server.requests.count("GET /api/v1/nodes") == 1
    own = [request for request in server.requests if request == "GET /api/v1/namespaces/team-a/pods"]
    assert len(own) - len(server.watches) == 1
    await second.close()


async def test_the_watch_of_a_namespace_receives_only_the_pods_of_jobs(server: FakeApi) -> None:
    """The other pods of a namespace may be many."""
    client = client_of(server, "team-a", 1)
    await client.snapshot()
    await asyncio.to_thread(wait_until, lambda: bool(server.watches), 60, "watch")
    assert server.watches[0]["labelSelector"] == "app.kubernetes.io/managed-by=airflow-adaptive"
    await client.close()


async def test_clients_of_two_namespaces_share_the_reads_of_nodes(server: FakeApi) -> None:
    first, second = client_of(server, "team-a", 1), client_of(server, "team-b", 1)
    for client in (first, second):
        await client.snapshot()
        await client.close()
    assert server.requests.count("GET /api/v1/nodes") == 1
    assert "GET /api/v1/namespaces/team-b/pods" in server.requests


async def test_the_last_client_closes_the_connections(server: FakeApi) -> None:
    closed: list[str] = []

    class Source(FakeApi):
        async def close(self) -> None:
            closed.append("source")

    source = Source()
    first, second = client_of(source, "team-a", 1), client_of(source, "team-b", 1)
    await first.close()
    assert closed == []
    await second.close()
    assert closed == ["source"]
    clock = SystemClock()
    assert ClusterReads.of(source, 10, clock) is not ClusterReads.of(source, 10, clock)
