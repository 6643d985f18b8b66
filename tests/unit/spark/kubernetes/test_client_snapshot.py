"""What a snapshot of a namespace contains of each driver: why it waits, and why its executors wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_adaptive.ports import ActiveDriver, LogPages, Resources, SubmissionState
from airflow_adaptive.spark.kubernetes.driver.names import EXECUTOR_REQUEST, DriverIdentity
from airflow_adaptive.spark.kubernetes.driver.pod_template import EXECUTOR_CONTAINER
from airflow_adaptive.spark.kubernetes.driver.status import CONTAINER
from airflow_adaptive.spark.kubernetes.executor_requests import to_annotation
from tests.support.kubernetes.client.connected import client_of, submission
from tests.support.kubernetes.client.fake_api import FakeApi

ROOT = "/api/v1/namespaces/team-a"
POD = DriverIdentity("departures", 1, "n").pod
RUNNING: dict[str, Any] = {"running": {}}
NO_IMAGE: dict[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": "spark:9: not found"}}


def pod(name: str, role: str, container: str, state: dict[str, Any], **labels: str) -> dict[str, Any]:
    statuses = [{"name": container, "image": "spark:9", "state": state}]
    annotations = {EXECUTOR_REQUEST: to_annotation(Resources(1000, 1 << 30))}
    return {
        "metadata": {"name": name, "labels": {"spark-role": role, **labels}, "annotations": annotations},
        "spec": {"nodeName": "node-1", "containers": [{"name": container}]},
        "status": {"phase": "Running" if state is RUNNING else "Pending", "containerStatuses": statuses},
    }


def driver(state: dict[str, Any]) -> dict[str, Any]:
    return pod("copy-1", "driver", CONTAINER, state)


def executor(number: int, state: dict[str, Any]) -> dict[str, Any]:
    labels = {"spark-app-selector": "copy-1", "spark-exec-id": str(number)}
    return pod(f"copy-1-exec-{number}", "executor", EXECUTOR_CONTAINER, state, **labels)


def driver_in(*pods: dict[str, Any], events: tuple[str, ...] = ()) -> ActiveDriver:
    """Return the only driver in the snapshot of a namespace with these pods and warnings."""

    async def read() -> ActiveDriver:
        async with FakeApi().running() as server, client_of(server) as client:
            for each in pods:
                server.put(f"{ROOT}/pods", each)
            for number, message in enumerate(events):
                event = {"involvedObject": {"uid": "uid-1"}, "reason": "FailedMount", "message": message}
                server.put(f"{ROOT}/events", {"metadata": {"name": f"e{number}"}, **event})
            [found] = (await client.snapshot()).drivers.values()
            return found

    return asyncio.run(read())


def test_a_driver_that_waits_on_its_node_has_the_reason_of_its_events() -> None:
    waiting = driver({"waiting": {"reason": "ContainerCreating"}})
    waiting["status"]["conditions"] = [{"type": "PodReadyToStartContainers", "status": "False"}]
    found = driver_in(waiting, events=('secret "keys" not found',))
    assert (found.state, found.can_start) == (SubmissionState.SUBMITTED, False)
    assert found.message.startswith('FailedMount: secret "keys" not found: create what is missing')


def test_a_running_driver_without_any_executor_that_can_start_has_the_reason() -> None:
    found = driver_in(driver(RUNNING), executor(1, NO_IMAGE), executor(2, NO_IMAGE))
    assert (found.state, found.can_start) == (SubmissionState.RUNNING, False)
    assert found.message.startswith("executor copy-1-exec-1 cannot start: the image 'spark:9' cannot be pulled")


def test_an_executor_with_another_request_than_the_calculated_one_is_reported() -> None:
    found = driver_in(driver(RUNNING), executor(1, RUNNING))
    assert (found.state, found.can_start) == (SubmissionState.RUNNING, True)
    assert found.message.startswith("an executor requests 0m CPU and 0 MiB, but the job calculates with 1,000m CPU")


def test_a_running_driver_without_executors_has_no_reason() -> None:
    found = driver_in(driver(RUNNING))
    assert (found.state, found.message, found.can_start) == (SubmissionState.RUNNING, "", True)


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
async def test_the_log_of_a_driver_has_a_page_if_the_cluster_has_a_log_collector() -> None:
    page = f"https://logs/team-a/{POD}"
    async with FakeApi().running() as server:
        async with client_of(server, log_url="https://logs/{namespace}/{pod}") as client:
            submitted = await client.submit(submission())
            assert (await client.snapshot()).log_pages == {submitted: LogPages(stdout=page, stderr=page)}
        async with client_of(server) as client:
            assert (await client.snapshot()).log_pages == {}
