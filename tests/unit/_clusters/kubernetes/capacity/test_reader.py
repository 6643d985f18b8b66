"""The capacity of a namespace for accounts that may read everything, or less, and the shared reader of nodes and pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api import KubernetesApi
from airflow_adaptive._clusters.kubernetes.capacity.reader import (
    BOUND_PODS,
    INTERVAL_S,
    MAX_AGE_S,
    NODES,
    PODS,
    RULES_INTERVAL_S,
    ApiLists,
    CapacityReader,
    ClusterReader,
    ExpiredError,
    ForbiddenError,
)
from airflow_adaptive._clusters.kubernetes.capacity.workers import ClusterPods, Usage
from airflow_adaptive._core.ports import ClusterUnreachableError, LimitKind, Resources
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
        await clock.sleep(RULES_INTERVAL_S)
        await reader.read([])
    assert server.requests.count(f"GET {ROOT}/resourcequotas") == 2


async def test_a_failed_read_is_no_capacity(server: FakeApi) -> None:
    server.answer = lambda request: failure(500, "etcd") if request.path.endswith("limitranges") else None
    async with reader_of(server) as reader:
        with pytest.raises(ClusterUnreachableError, match="500 etcd"):
            await reader.read([])


def pod(node: str, namespace: str = "other", *, is_own: bool = False, cpu: int = 1) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "airflow-adaptive"} if is_own else {"app": "x"}
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"namespace": namespace, "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
    }


def usage(cpu: int, pods: int = 1) -> Usage:
    return Usage(Resources(1000 * cpu, 0), pods)


class FakeLists(ApiLists):
    """Collections in pages of two objects."""

    def __init__(self, nodes: list[Any], pods: list[Any]):
        self.collections = {NODES: nodes, PODS: pods}
        self.error: Exception | None = None
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def page(self, path: str, parameters: Mapping[str, str]) -> Any:
        self.requests.append((path, parameters))
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        start = int(parameters.get("continue", 0))
        items = self.collections[path]
        token = {"continue": str(start + 2)} if start + 2 < len(items) else {}
        return {"items": items[start : start + 2], "metadata": token}


@pytest.fixture
def lists() -> FakeLists:
    nodes = [{"metadata": {"name": name}} for name in "abcde"]
    return FakeLists(
        nodes,
        [
            *(pod("a"), pod("a", cpu=2)),
            *(pod("b", "team", is_own=True), pod("b", "team")),
            *(pod("a", "second", is_own=True), pod("b", "team", is_own=True, cpu=4)),
        ],
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reader(lists: FakeLists, clock: ManualClock) -> ClusterReader:
    return ClusterReader(lists, clock)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_all_pages_are_read(reader: ClusterReader, lists: FakeLists):
    found = await reader.read()
    assert [node["metadata"]["name"] for node in found.nodes] == list("abcde")
    assert found.others == {"a": usage(3, 2), "b": usage(1)}
    assert found.own == {"team": {"b": usage(5, 2)}, "second": {"a": usage(1)}}
    assert [path for path, _ in lists.requests] == [NODES] * 3 + [PODS] * 3
    assert all(parameters["limit"] == "250" for _, parameters in lists.requests)
    selectors = [parameters.get("fieldSelector") for _, parameters in lists.requests]
    assert selectors == [None] * 3 + [BOUND_PODS] * 3


async def test_own_pods_of_the_namespace_are_replaced_by_the_ones_that_the_client_watches():
    found = ClusterPods([], {"team": {"b": usage(9)}, "second": {"a": usage(1)}}, {"a": usage(3, 2)})
    assert found.usages("team", [pod("b", "team", is_own=True), pod("c", "team", is_own=True)]) == {
        "a": usage(4, 3),
        "b": usage(1),
        "c": usage(1),
    }


async def test_users_share_a_result_until_the_interval_has_passed(
    reader: ClusterReader, lists: FakeLists, clock: ManualClock
):
    first, second = await asyncio.gather(reader.read(), reader.read())
    await clock.sleep(INTERVAL_S - 1)
    assert first is second is await reader.read()
    assert len(lists.requests) == 6


async def test_a_read_in_the_background_replaces_an_old_result(
    reader: ClusterReader, lists: FakeLists, clock: ManualClock
):
    first = await reader.read()
    await clock.sleep(INTERVAL_S)
    lists.collections[PODS] = []
    assert await reader.read() is first
    await settle()
    assert (await reader.read()).others == {}


async def test_errors_keep_the_last_result_for_a_minute(reader: ClusterReader, lists: FakeLists, clock: ManualClock):
    first = await reader.read()
    lists.error = ClusterUnreachableError("no answer")
    await clock.sleep(INTERVAL_S)
    assert await reader.read() is first
    await settle()
    await clock.sleep(MAX_AGE_S - INTERVAL_S - 1)
    assert await reader.read() is first
    await settle()
    await clock.sleep(1)
    with pytest.raises(ClusterUnreachableError, match="no answer"):
        await reader.read()
    lists.error = None
    assert (await reader.read()).others == first.others


async def test_a_read_that_hangs_does_not_delay_the_users_of_a_recent_result(
    reader: ClusterReader, lists: FakeLists, clock: ManualClock
):
    first = await reader.read()
    lists.answers.clear()
    await clock.sleep(INTERVAL_S)
    assert await reader.read() is first
    waiting = asyncio.create_task(reader.read())
    await settle()
    assert waiting.result() is first
    await clock.sleep(MAX_AGE_S)
    waiting = asyncio.create_task(reader.read())
    await settle()
    assert not waiting.done()
    lists.answers.set()
    with pytest.raises(ClusterUnreachableError):
        await waiting


async def test_a_list_that_expired_is_begun_again(reader: ClusterReader, lists: FakeLists):
    lists.error = ExpiredError("the token is too old")
    with pytest.raises(ClusterUnreachableError, match="the token is too old"):
        await reader.read()
    lists.error = None
    assert len((await reader.read()).nodes) == 5


async def test_missing_permissions_are_reported_and_checked_again(
    reader: ClusterReader, lists: FakeLists, clock: ManualClock
):
    lists.error = ForbiddenError("list nodes")
    with pytest.raises(ForbiddenError, match="list nodes"):
        await reader.read()
    with pytest.raises(ForbiddenError, match="list nodes"):
        await reader.read()
    assert len(lists.requests) == 1
    lists.error = None
    await clock.sleep(MAX_AGE_S)
    assert len((await reader.read()).nodes) == 5


async def test_an_unexpected_error_is_an_error_of_the_read(reader: ClusterReader, lists: FakeLists, caplog):
    lists.error = KeyError("items")
    with pytest.raises(ClusterUnreachableError, match="KeyError"):
        await reader.read()
    assert "Traceback" in caplog.text


async def test_a_reader_can_be_closed_during_a_read(reader: ClusterReader, lists: FakeLists):
    await reader.close()
    lists.answers.clear()
    waiting = asyncio.create_task(reader.read())
    await settle()
    await reader.close()
    with pytest.raises(ClusterUnreachableError, match="closed"):
        await waiting
