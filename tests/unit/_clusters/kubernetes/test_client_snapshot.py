"""What a snapshot of a namespace contains of each driver: why it waits, and why its executors wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.names import DriverIdentity
from airflow_adaptive._core.ports import ActiveDriver, LogPages, SubmissionState
from tests.support.kubernetes.client.connected import client_of, submission
from tests.support.kubernetes.client.fake_api import FakeApi, failure
from tests.support.kubernetes.client.pods import DRIVER, driver_pod, executor_pod
from tests.support.waiting import wait_until_async

ROOT = "/api/v1/namespaces/team-a"
POD = DriverIdentity("departures", 1, "n").pod
NO_IMAGE: dict[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": "spark:9: not found"}}


def driver_in(
    *pods: dict[str, Any], events: tuple[str, ...] = (), of: str = "driver", cordoned: str = ""
) -> ActiveDriver:
    """Return the only driver in the snapshot of a namespace with these pods, with these warnings about the pod `of`, and with a cordoned node."""

    async def read() -> ActiveDriver:
        async with FakeApi().running() as server, client_of(server) as client:
            for each in pods:
                server.put(f"{ROOT}/pods", each)
            if cordoned:
                server.put("/api/v1/nodes", {"metadata": {"name": cordoned}, "spec": {"unschedulable": True}})
            for number, message in enumerate(events):
                event = {"involvedObject": {"uid": of}, "reason": "FailedMount", "message": message}
                server.put(f"{ROOT}/events", {"metadata": {"name": f"e{number}"}, **event})
            [found] = (await client.snapshot()).drivers.values()
            return found

    return asyncio.run(read())


def test_a_driver_that_waits_on_its_node_has_the_reason_of_its_events() -> None:
    waiting = driver_pod({"waiting": {"reason": "ContainerCreating"}})
    waiting["status"]["conditions"] = [{"type": "PodReadyToStartContainers", "status": "False"}]
    found = driver_in(waiting, events=('secret "keys" not found',))
    assert (found.state, found.can_start) == (SubmissionState.SUBMITTED, False)
    assert found.message.startswith('FailedMount: secret "keys" not found: create what is missing')


def test_a_running_driver_without_any_executor_that_can_start_has_the_reason() -> None:
    found = driver_in(driver_pod(), executor_pod(1, NO_IMAGE), executor_pod(2, NO_IMAGE))
    assert (found.state, found.can_start) == (SubmissionState.RUNNING, False)
    assert found.message.startswith(f"executor {DRIVER.pod}-exec-1 cannot start: the image 'spark:9' cannot be pulled")


def test_an_executor_with_another_request_than_the_calculated_one_is_reported() -> None:
    found = driver_in(driver_pod(), executor_pod(1))
    assert (found.state, found.can_start) == (SubmissionState.RUNNING, True)
    assert found.message.startswith("an executor requests 0m CPU and 0 MiB, but the job calculates with 1,000m CPU")


def test_a_running_driver_without_executors_has_no_reason() -> None:
    found = driver_in(driver_pod())
    assert (found.state, found.message, found.can_start) == (SubmissionState.RUNNING, "", True)


WAITS_FOR_VOLUMES = [{"type": "PodReadyToStartContainers", "status": "False"}]


def test_executors_that_wait_for_a_missing_volume_are_explained_by_their_events() -> None:
    executor = executor_pod(1, {"waiting": {"reason": "ContainerCreating"}})
    executor["status"]["conditions"] = WAITS_FOR_VOLUMES
    found = driver_in(driver_pod(), executor, events=('configmap "conf" not found',), of="executor-1")
    assert (found.state, found.can_start) == (SubmissionState.RUNNING, False)
    assert found.message.startswith(
        f'executor {DRIVER.pod}-exec-1 cannot start: FailedMount: configmap "conf" not found'
    )


def test_executors_that_wait_for_a_node_have_the_reason() -> None:
    executor = executor_pod(1, node=None)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    executor["status"]["conditions"] = [condition]
    found = driver_in(driver_pod(), executor)
    assert (found.message, found.can_start) == ("an executor waits: Unschedulable: 0/2 nodes", True)


REFUSAL = 'KubernetesClientException: Message: pods "x" is forbidden: violates PodSecurity "restricted:latest". Received status: '


def with_log(server: FakeApi, text: str) -> list[dict[str, str]]:
    """Let the server return a log of each pod. Return the parameters of the requests."""
    queries: list[dict[str, str]] = []

    def answer(request: web.Request) -> web.Response | None:
        if not request.path.endswith("/log"):
            return None
        queries.append(dict(request.query))
        return web.Response(text=text)

    server.answer = answer
    return queries


@pytest.mark.asyncio
async def test_a_running_driver_whose_executors_are_refused_cannot_start() -> None:
    async with FakeApi().running() as server, client_of(server) as client:
        server.put(f"{ROOT}/pods", driver_pod())
        queries = with_log(server, REFUSAL)

        async def is_refused() -> bool:
            [found] = (await client.snapshot()).drivers.values()
            return (found.can_start, found.message[:38]) == (False, "the API server refuses the executors: ")

        await wait_until_async(is_refused, 180, "the refusal")
    assert queries[0]["sinceSeconds"] == "30"
    assert len(queries) == 1


@pytest.mark.asyncio
async def test_the_log_of_a_driver_with_executors_is_not_searched() -> None:
    async with FakeApi().running() as server, client_of(server) as client:
        for pod in (driver_pod(), executor_pod(1)):
            server.put(f"{ROOT}/pods", pod)
        queries = with_log(server, REFUSAL)
        for _ in range(3):
            [found] = (await client.snapshot()).drivers.values()
            assert "refuses" not in found.message
    assert queries == []


@pytest.mark.asyncio
@pytest.mark.parametrize("is_refused", [True, False])
async def test_the_end_of_a_driver_whose_requests_are_refused_has_the_reason(is_refused: bool) -> None:
    async with FakeApi().running() as server, client_of(server) as client:
        server.put(f"{ROOT}/pods", driver_pod({"terminated": {"exitCode": 1}}))
        with_log(server, f"Traceback (most recent call last)\n{REFUSAL if is_refused else 'ValueError'}")
        found = await client.status(f"{DRIVER.pod}@driver")
    assert (found.state, found.can_start) == (SubmissionState.FAILED, not is_refused)
    assert found.message.startswith("the API server refused the driver" if is_refused else "exit code 1")


@pytest.mark.asyncio
async def test_a_log_that_cannot_be_read_explains_nothing() -> None:
    async with FakeApi().running() as server, client_of(server) as client:
        server.put(f"{ROOT}/pods", driver_pod({"terminated": {"exitCode": 1}}))
        server.answer = lambda request: failure(500, "down") if request.path.endswith("/log") else None
        found = await client.status(f"{DRIVER.pod}@driver")
    assert (found.message, found.can_start) == ("exit code 1", True)


@pytest.mark.asyncio
async def test_a_driver_is_known_at_once_after_its_submission() -> None:
    async with FakeApi().running() as server, client_of(server) as client:
        await client.snapshot()
        submitted = await client.submit(submission())
        assert (await client.status(submitted)).state is SubmissionState.SUBMITTED
        snapshot = await client.snapshot()
    assert snapshot.drivers[submitted].state is SubmissionState.SUBMITTED
    assert snapshot.names == {POD: "departures"}
    assert snapshot.master_url == "k8s://https://api"


@pytest.mark.asyncio
async def test_log_of_a_driver_has_a_page_if_the_cluster_collects_logs() -> None:
    page = f"https://logs/team-a/{POD}"
    async with FakeApi().running() as server:
        async with client_of(server, log_url="https://logs/{namespace}/{pod}") as client:
            submitted = await client.submit(submission())
            assert (await client.snapshot()).log_pages == {submitted: LogPages(stdout=page, stderr=page)}
        async with client_of(server) as client:
            assert (await client.snapshot()).log_pages == {}


def test_driver_on_a_node_that_was_cordoned_will_have_to_leave() -> None:
    pod = driver_pod()
    assert driver_in(pod).leaves is None
    node = pod["spec"]["nodeName"]
    assert driver_in(pod, cordoned=node).leaves == f"node {node} of the driver was cordoned"
