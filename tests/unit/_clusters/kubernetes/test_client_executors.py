"""The executors of drivers that have ended or were killed, executors that are too large, and pods of others with the labels of executors."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.names import MANAGED_BY, MANAGER, DriverIdentity
from airflow_adaptive._core.ports import ActiveDriver, ClusterRefusedError, ClusterUnreachableError, Request
from tests.support.kubernetes.client.connected import client_of, submission
from tests.support.kubernetes.client.fake_api import FakeApi, failure
from tests.support.kubernetes.client.pods import DRIVER, driver_pod, executor_pod
from tests.support.waiting import wait_until_async

ROOT = "/api/v1/namespaces/team-a"
POD = DriverIdentity("departures", 1, "n").pod

pytestmark = pytest.mark.asyncio


def created(server: FakeApi) -> list[str]:
    return [path.removeprefix(f"{ROOT}/") for path in server.objects]


def end(server: FakeApi, pod: str) -> None:
    statuses = [{"name": "spark-kubernetes-driver", "state": {"terminated": {"exitCode": 0}}}]
    server.objects[f"{ROOT}/pods/{pod}"]["status"] = {"phase": "Succeeded", "containerStatuses": statuses}


def executors(server: FakeApi) -> list[str]:
    return [name for name in created(server) if "-exec-" in name]


async def test_a_kill_deletes_the_executors_of_the_driver_only(server: FakeApi) -> None:
    """On a lost node, the pod of a driver stays, so the garbage collector does not delete its executors on other nodes."""
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        for number, owner in ((1, "uid-1"), (2, "uid-1"), (3, "another driver")):
            server.put(f"{ROOT}/pods", executor_pod(number, owner=owner))
        server.answer = lambda request: failure(500, "down") if request.path == f"{ROOT}/pods/{POD}" else None
        await client.snapshot()
        with pytest.raises(ClusterUnreachableError):
            await client.kill(submitted)
        server.answer = lambda request: (
            web.json_response(server.objects[request.path]) if request.path == f"{ROOT}/pods/{POD}" else None
        )
        await client.kill(submitted)
    assert f"pods/{POD}" in created(server)
    assert executors(server) == [f"pods/{DRIVER.pod}-exec-3"]


@pytest.mark.parametrize("is_over", [True, False])
async def test_executors_that_outlive_their_driver_are_deleted(server: FakeApi, is_over: bool) -> None:
    """An executor that waits for a node does not notice the end of its driver, and holds the quota that the next driver needs."""
    server.put(f"{ROOT}/pods", driver_pod({"terminated": {"exitCode": 1}} if is_over else {"running": {}}))
    server.put(f"{ROOT}/pods", executor_pod(1, node=None))
    async with client_of(server) as client:
        await client.snapshot()
        if is_over:
            await wait_until_async(lambda: _value(not executors(server)), 180, "deletion of the executor")
        else:
            await client.snapshot()
    assert len(executors(server)) == (0 if is_over else 1)
    assert f"pods/{DRIVER.pod}" in created(server)


async def test_executors_that_cannot_be_deleted_now_are_deleted_later(server: FakeApi) -> None:
    server.put(f"{ROOT}/pods", driver_pod({"terminated": {"exitCode": 1}}))
    executor = server.put(f"{ROOT}/pods", executor_pod(1))
    path = f"{ROOT}/pods/{executor['metadata']['name']}"
    async with client_of(server) as client:
        server.answer = lambda request: failure(503, "down") if request.method == "DELETE" else None
        await client.snapshot()
        await wait_until_async(lambda: _value(f"DELETE {path}" in server.requests), 180, "a refused deletion")
        server.answer = lambda _: None

        async def is_deleted() -> bool:
            await client.snapshot()
            return not executors(server)

        await wait_until_async(is_deleted, 180, "deletion of the executor")


async def _value(value: bool) -> bool:
    return value


async def test_pods_of_others_with_our_labels_do_not_stop_drivers_and_are_reported_once(
    server: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"airflow-adaptive/job": "departures", "app.kubernetes.io/managed-by": "airflow-adaptive"}
    for number, more in enumerate(
        (
            {"spark-role": "driver"},
            {"spark-role": "driver", "airflow-adaptive/epoch": "latest"},
            {"spark-role": "executor", "spark-app-selector": POD, "spark-exec-id": "debug"},
            {},
        )
    ):
        metadata = {"name": f"foreign-{number}", "labels": {**labels, **more}}
        server.put(f"{ROOT}/pods", {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}})
    foreign = created(server)
    async with client_of(server) as client:
        for epoch in (1, 2):
            await client.submit(submission(epoch))
            end(server, DriverIdentity("departures", epoch, "n").pod)
        submitted = await client.submit(submission(3))
        for _ in range(2):
            assert [*(await client.snapshot()).drivers] == [submitted]
        await client.clean_up("departures")
    assert [name for name in created(server) if name.startswith("pods/")] == foreign
    ignored = [message for message in caplog.messages if "is ignored" in message]
    assert len(ignored) == len({*ignored}) == len(foreign)
    assert any(message.endswith("no driver owns it") for message in ignored)


async def test_hundreds_of_ignored_pods_are_some_lines_of_the_log(
    server: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(300):
        metadata = {"name": f"foreign-{number}", "labels": {MANAGED_BY: MANAGER}}
        server.put(f"{ROOT}/pods", {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}})
    async with client_of(server) as client:
        for _ in range(2):
            await client.snapshot()
    ignored = [message for message in caplog.messages if "ignored" in message]
    assert len(ignored) == 11
    assert ignored[-1].startswith("290 more pods of namespace team-a have the labels")


async def test_a_cluster_without_room_for_the_sizes_accepts_no_driver(server: FakeApi) -> None:
    def answer(request: web.Request) -> web.Response | None:
        return web.json_response({"status": {"allowed": True}}) if request.path.startswith("/apis/") else None

    server.answer = answer
    async with client_of(server) as client:
        await client.check()
        await client.check(Request(4000, 1), Request(1000, 1))
        with pytest.raises(ClusterRefusedError) as raised:
            await client.check(Request(5000, 1), Request(6000, 1))
    assert "the driver requests 5 CPU" in str(raised.value)
    assert "; the executor requests 6 CPU" in str(raised.value)


@pytest.mark.parametrize(
    ("status", "event", "wait"),
    [
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
                ]
            },
            None,
            "executor pod e-1 waits: Unschedulable: 0/2 nodes",
        ),
        (
            {},
            'configmap "spark-exec" not found',
            'executor pod e-1 waits: FailedMount: configmap "spark-exec" not found',
        ),
        ({}, None, ""),
        ({"phase": "Running"}, 'configmap "spark-exec" not found', ""),
    ],
    ids=["unschedulable", "missing volume", "starting", "running"],
)
async def test_the_log_of_a_driver_contains_why_its_executors_wait(
    server: FakeApi, status: dict[str, Any], event: str | None, wait: str
) -> None:
    labels = {"spark-app-selector": POD, "spark-role": "executor", "spark-exec-id": "1", MANAGED_BY: MANAGER}
    async with client_of(server) as client:
        submitted = await client.submit(submission())
        owner = [{"kind": "Pod", "name": POD, "uid": "uid-1"}]
        metadata = {"name": "e-1", "uid": "u-e1", "labels": labels, "ownerReferences": owner}
        node = {} if "conditions" in status else {"nodeName": "node-1"}
        server.put(
            f"{ROOT}/pods",
            {"metadata": metadata, "spec": {"containers": [], **node}, "status": {"phase": "Pending", **status}},
        )
        if event is not None:
            warning = {"involvedObject": {"uid": "u-e1"}, "reason": "FailedMount", "message": event}
            server.put(f"{ROOT}/events", {"metadata": {"name": "w-1"}, **warning})
        server.answer = lambda request: web.Response(text="") if request.path.endswith("/log") else None
        waits = (await client.driver_log(submitted)).waits
    assert waits.partition(": create")[0] == wait


async def test_executors_that_fail_one_after_the_other_explain_that_no_slot_arrives(server: FakeApi) -> None:
    """Spark deletes the pod of each of them at once, and requests the next one."""
    driver = server.put(f"{ROOT}/pods", driver_pod())
    terminated = {"terminated": {"exitCode": 7, "message": "license server unreachable\n"}}
    async with client_of(server) as client:
        await client.snapshot()
        await server.events.put({"type": "ADDED", "object": with_version(executor_pod(1, terminated))})
        await server.events.put({"type": "DELETED", "object": with_version(executor_pod(1, terminated))})
        found: list[ActiveDriver] = []

        async def is_explained() -> bool:
            found[:] = (await client.snapshot()).drivers.values()
            return bool(found[0].message)

        await wait_until_async(is_explained, 180, "the failure of the executor")
        written = await client.driver_log(f"{DRIVER.pod}@{driver['metadata']['uid']}")
    cause = "the container 'spark-kubernetes-executor' of an executor ended with exit code 7"
    assert (found[0].message, found[0].can_start) == (cause, True)
    assert written.waits == f"{cause}; its last output: license server unreachable"


INCOMPATIBLE = "java.io.InvalidClassException: org.apache.spark.resource.ResourceProfile; local class incompatible: stream classdesc serialVersionUID = -2"

EXECUTOR_LOG = f"""26/11/29 00:38:57 INFO TransportClientFactory: Successfully created connection to /10.213.0.131:7078
26/11/29 00:38:57 WARN TransportChannelHandler: Exception in connection from 10.213.0.131/10.213.0.131:7078
{INCOMPATIBLE}
\tat java.base/java.io.ObjectStreamClass.initNonProxy(ObjectStreamClass.java:597)
"""


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (EXECUTOR_LOG, f"{DRIVER.pod}-exec-1 (image spark:8; the driver has spark:9): {INCOMPATIBLE}"),
        ("26/11/29 00:38:57 INFO TransportClientFactory: Successfully created connection\n", ""),
        (None, ""),
    ],
    ids=["exception", "no exception", "no log"],
)
async def test_log_of_an_executor_that_runs_and_cannot_register_explains_that_no_slot_arrives(
    server: FakeApi, answer: str | None, wait: str
) -> None:
    driver = server.put(f"{ROOT}/pods", driver_pod())
    executor = executor_pod(1)
    executor["status"]["containerStatuses"][0]["image"] = "spark:8"
    server.put(f"{ROOT}/pods", executor)

    def logs(request: web.Request) -> web.Response | None:
        if not request.path.endswith("/log"):
            return None
        if "-exec-" not in request.path:
            return web.Response(text="")
        return failure(404, "not found") if answer is None else web.Response(text=answer)

    server.answer = logs
    async with client_of(server) as client:
        written = await client.driver_log(f"{DRIVER.pod}@{driver['metadata']['uid']}")
    assert written.waits == (f"executor pod {wait}" if wait else "")


def with_version(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["resourceVersion"] = "9"
    return pod
