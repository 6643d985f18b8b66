"""The watch of a namespace, when watches end, break, hang or are too old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from airflow_adaptive._clusters.kubernetes import pod_watch
from airflow_adaptive._clusters.kubernetes.api import KubernetesApi
from airflow_adaptive._clusters.kubernetes.pod_watch import PodWatch
from airflow_adaptive._core.ports import Clock, ClusterUnreachableError
from airflow_adaptive._engine.clock import Hint, SystemClock
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.kubernetes.client.fake_api import FakeApi, failure
from tests.support.kubernetes.client.pods import DRIVER, driver_pod, executor_pod
from tests.support.waiting import wait_until_async

SHORT_TIMEOUT_S = 1.0
"""Timeout of a request that hangs. Other requests must end before, also on a busy machine."""

PODS = "/api/v1/namespaces/team-a/pods"

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_watch, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(pod_watch, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(pod_watch, "SHORTEST_S", 0.0)


@asynccontextmanager
async def watching(server: FakeApi, timeout_s: float = 10.0, clock: Clock | None = None) -> AsyncIterator[PodWatch]:
    watch = PodWatch(KubernetesApi(server, timeout_s), "team-a", "managed-by=us", clock or SystemClock())
    try:
        yield watch
    finally:
        await watch.close()


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "resourceVersion": str(version), "labels": {"spark-role": "driver"}}
    return {"type": kind, "object": {"metadata": metadata}}


async def until(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await wait_until_async(holds, 60, "condition", 0.005)


def names(watch: PodWatch) -> list[str]:
    return [pod["metadata"]["name"] for pod in watch.cache.pods]


async def test_nothing_is_sent_before_the_first_use(server: FakeApi) -> None:
    async with watching(server):
        await asyncio.sleep(0)
    assert server.requests == []


async def test_all_users_share_one_list_and_one_watch(server: FakeApi) -> None:
    server.put(PODS, {"metadata": {"name": "a"}})
    async with watching(server) as watch:
        listed = await asyncio.gather(*(watch.pods() for _ in range(300)))
        await until(lambda: bool(server.watches))
    assert [pod["metadata"]["name"] for pods in listed for pod in pods] == ["a"] * 300
    assert server.requests == [f"GET {PODS}"] * 2


async def test_all_pages_of_a_long_list_are_read(server: FakeApi) -> None:
    def pages(request: web.Request) -> web.Response | None:
        if request.query.get("watch") == "true":
            return None
        number = int(request.query.get("continue") or 0)
        metadata = {"resourceVersion": str(number), "continue": str(number + 1) if number < 2 else ""}
        pod = {"metadata": {"name": f"pod-{number}", "uid": f"uid-{number}", "resourceVersion": "1"}}
        return web.json_response({"items": [pod], "metadata": metadata})

    server.answer = pages
    async with watching(server) as watch:
        assert [pod["metadata"]["name"] for pod in await watch.pods()] == ["pod-0", "pod-1", "pod-2"]


async def test_events_change_the_pods(server: FakeApi) -> None:
    async with watching(server) as watch:
        await watch.pods()
        for change in (event("ADDED", "a", 5), event("ADDED", "b", 6), event("DELETED", "a", 7)):
            server.events.put_nowait(change)
        await until(lambda: names(watch) == ["b"])
        known = await watch.find("a")
    assert known is not None
    assert known.is_deleted


async def test_the_end_of_a_driver_and_nothing_else_is_a_hint_to_its_job(server: FakeApi) -> None:
    hint, hints = Hint(), [False]
    ended: dict[str, Any] = {"terminated": {"exitCode": 1}}
    running = [driver_pod(), executor_pod(1), executor_pod(1, ended)]
    pods = [("ADDED", pod) for pod in running] + [("MODIFIED", driver_pod(ended)), ("DELETED", driver_pod())]
    async with watching(server) as watch:
        watch.hints[DRIVER.job] = hint
        await watch.pods()
        for version, (kind, pod) in enumerate(pods, 5):
            pod["metadata"]["resourceVersion"] = str(version)
            server.events.put_nowait({"type": kind, "object": pod})
            await until(partial(lambda number: watch._version == str(number), version))
            hints.append(await hint.wait(asyncio.sleep(0)))
    assert hints == [False] * 4 + [True] * 2


async def test_a_watch_resumes_where_it_ended(server: FakeApi) -> None:
    async with watching(server) as watch:
        await watch.pods()
        server.events.put_nowait(event("ADDED", "a", 5))
        server.events.put_nowait({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
        server.events.put_nowait(None)
        await until(lambda: len(server.watches) == 2)
    assert [query["resourceVersion"] for query in server.watches] == ["0", "9"]
    assert server.requests.count(f"GET {PODS}") == 3
    assert names(watch) == ["a"]


async def test_a_version_that_is_too_old_is_listed_again(server: FakeApi) -> None:
    async with watching(server) as watch:
        await watch.pods()
        server.events.put_nowait(event("ADDED", "gone", 5))
        await until(lambda: names(watch) == ["gone"])
        server.put(PODS, {"metadata": {"name": "b"}})
        server.events.put_nowait({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
        await until(lambda: names(watch) == ["b"])
        known = await watch.find("gone")
    assert known is not None
    assert (known.is_gone, known.is_deleted) == (True, False)


async def test_a_broken_watch_is_resumed(server: FakeApi) -> None:
    def breaks(request: web.Request) -> web.Response | None:
        is_first = request.query.get("watch") == "true" and not broken
        broken.extend([request] if is_first else [])
        return failure(500, "etcdserver: leader changed") if is_first else None

    broken: list[web.Request] = []
    server.answer = breaks
    async with watching(server) as watch:
        await watch.pods()
        server.events.put_nowait(event("ADDED", "a", 5))
        await until(lambda: names(watch) == ["a"])
    assert len(broken) == 1


async def test_a_half_open_connection_is_noticed(server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_watch, "WATCH_S", 0)
    async with watching(server, timeout_s=SHORT_TIMEOUT_S) as watch:
        await until_listed(watch)
        await until(lambda: len(server.watches) >= 2)


async def until_listed(watch: PodWatch) -> None:
    async def listed() -> bool:
        try:
            await watch.pods()
        except ClusterUnreachableError:
            return False
        return True

    await wait_until_async(listed, 60, "list")


async def test_a_missing_permission_is_named(server: FakeApi) -> None:
    server.answer = lambda _: failure(403, 'User "airflow" cannot list resource "pods"', "Forbidden")
    async with watching(server) as watch:
        with pytest.raises(ClusterUnreachableError, match='cannot list resource "pods"'):
            await watch.pods()


async def test_an_old_state_is_no_answer(server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_watch, "WATCH_S", 0)
    monkeypatch.setattr(pod_watch, "LONGEST_PAUSE_S", 0)
    clock = ManualClock()
    async with watching(server, timeout_s=SHORT_TIMEOUT_S, clock=clock) as watch:
        await until_listed(watch)
        server.hangs = True
        await clock.sleep(4 * SHORT_TIMEOUT_S + 1)

        async def refuses() -> bool:
            try:
                await watch.pods()
            except ClusterUnreachableError as error:
                return "did not answer in time" in str(error)
            return False

        await wait_until_async(refuses, 60, "error", 0.005)


async def test_each_event_confirms_the_state(server: FakeApi) -> None:
    """No watch ends, and the state is too old after 70 s without a confirmation."""
    clock = ManualClock()
    async with watching(server, clock=clock) as watch:
        await watch.pods()
        await clock.sleep(60)
        server.events.put_nowait(event("ADDED", "a", 5))
        await until(lambda: names(watch) == ["a"])
        await clock.sleep(60)
        assert len(await watch.pods()) == 1
        await clock.sleep(11)
        with pytest.raises(ClusterUnreachableError):
            await watch.pods()


async def test_an_error_of_the_program_does_not_end_the_watch(server: FakeApi) -> None:
    async with watching(server) as watch:
        await watch.pods()
        server.events.put_nowait({"type": "ADDED", "object": {}})
        server.put(PODS, {"metadata": {"name": "b"}})
        await until(lambda: names(watch) == ["b"])


async def test_an_error_without_a_message_is_named_by_its_class(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def request(*_: Any, **__: Any) -> Any:
        raise TimeoutError

    monkeypatch.setattr(KubernetesApi, "request", request)
    async with watching(server) as watch:
        with pytest.raises(ClusterUnreachableError, match=r"cannot be watched: TimeoutError$"):
            await watch.pods()


async def test_no_task_remains_after_the_end(server: FakeApi) -> None:
    before = asyncio.all_tasks()
    async with watching(server) as watch:
        await watch.pods()
        assert any(task.get_name() == f"watch {PODS}" for task in asyncio.all_tasks())
    await until(lambda: not any(task.get_name() == f"watch {PODS}" for task in asyncio.all_tasks() - before))


@pytest.mark.parametrize("size", [130_000, 1_500_000])
async def test_an_event_of_a_large_pod_does_not_stop_the_watch(server: FakeApi, size: int) -> None:
    large, next_one = event("ADDED", "large", 2), event("ADDED", "next", 3)
    large["object"]["metadata"]["annotations"] = {"note": "x" * size}
    async with watching(server) as watch:
        await watch.start()
        server.events.put_nowait(large)
        server.events.put_nowait(next_one)
        await until(lambda: len(watch.cache.pods) == 2)
    assert len(server.watches) == 1
