"""The capacity of a namespace for accounts that may read everything, the namespace only, or nothing of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api.requests import KubernetesApi
from airflow_adaptive._clusters.kubernetes.capacity.cluster_reader import ClusterReader
from airflow_adaptive._clusters.kubernetes.capacity_reader import INTERVAL_S, ApiLists, CapacityReader
from airflow_adaptive._core.ports import ClusterUnreachableError, LimitKind
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.kubernetes.client.fake_api import FakeApi, failure

ROOT = "/api/v1/namespaces/team-a"
NODE = {
    "metadata": {"name": "node-1"},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
QUOTA = {
    "metadata": {"name": "team-a"},
    "spec": {"hard": {"requests.cpu": "2"}},
    "status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "0"}},
}

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi().running() as running:
        running.put("/api/v1/nodes", NODE)
        running.put(f"{ROOT}/resourcequotas", QUOTA)
        yield running


@asynccontextmanager
async def reader_of(server: FakeApi, clock: ManualClock | None = None, **cap: Any) -> AsyncIterator[CapacityReader]:
    address = KubernetesAddress(server="https://api", namespace="team-a", **cap)
    api, time = KubernetesApi(server, 10), clock or ManualClock()
    nodes = ClusterReader(ApiLists(api), time)
    try:
        yield CapacityReader(address, api, time, nodes)
    finally:
        await nodes.close()


def forbid(server: FakeApi, *paths: str) -> None:
    def answer(request: web.Request) -> web.Response | None:
        return failure(403, f"cannot list {request.path}", "Forbidden") if request.path in paths else None

    server.answer = answer


def kinds(limits: Collection[Any]) -> list[LimitKind]:
    return [limit.kind for limit in limits]


async def test_nodes_are_workers(server: FakeApi) -> None:
    async with reader_of(server, max_memory_bytes=1 << 30) as reader:
        found = await reader.read([])
    assert [worker.worker_id for worker in found.workers] == ["node-1"]
    assert kinds(found.limits) == [LimitKind.QUOTA, LimitKind.CAP]


@pytest.mark.parametrize("forbidden", ["/api/v1/nodes", "/api/v1/pods"])
async def test_the_namespace_is_one_worker_without_nodes_or_pods_of_all_namespaces(
    server: FakeApi, forbidden: str
) -> None:
    forbid(server, forbidden)
    async with reader_of(server) as reader:
        found = await reader.read([])
    assert [worker.worker_id for worker in found.workers] == ["team-a"]


async def test_missing_permissions_without_a_cap_are_named(server: FakeApi) -> None:
    forbid(server, "/api/v1/nodes", f"{ROOT}/resourcequotas", f"{ROOT}/limitranges")
    async with reader_of(server) as reader:
        with pytest.raises(ClusterUnreachableError, match="list nodes, list resourcequotas, list limitranges"):
            await reader.read([])
    forbid(server, "/api/v1/pods", f"{ROOT}/resourcequotas")
    async with reader_of(server) as reader:
        with pytest.raises(ClusterUnreachableError, match="list pods of all namespaces"):
            await reader.read([])


async def test_quotas_are_read_again_after_the_interval(server: FakeApi) -> None:
    clock = ManualClock()
    async with reader_of(server, clock) as reader:
        await reader.read([])
        await reader.read([])
        assert server.requests.count(f"GET {ROOT}/resourcequotas") == 1
        await clock.sleep(INTERVAL_S)
        await reader.read([])
    assert server.requests.count(f"GET {ROOT}/resourcequotas") == 2


async def test_a_failed_read_is_no_capacity(server: FakeApi) -> None:
    server.answer = lambda request: failure(500, "etcd") if request.path.endswith("limitranges") else None
    async with reader_of(server) as reader:
        with pytest.raises(ClusterUnreachableError, match="500 etcd"):
            await reader.read([])
