"""Causes of waits that only the events of a pod contain."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.api import KubernetesApi
from airflow_adaptive._clusters.kubernetes.driver_refusals import EVENTS_INTERVAL_S, LONGEST_WAIT_S, DriverEvents
from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.kubernetes.client.fake_api import FakeApi, failure

pytestmark = pytest.mark.asyncio

PATH = "/api/v1/namespaces/team-a/events"
POD: dict[str, Any] = {"metadata": {"name": "copy-1-abc", "uid": "u1"}, "spec": {"nodeName": "node-1"}}
UNMOUNTED = {**POD, "status": {"conditions": [{"type": "PodReadyToStartContainers", "status": "False"}]}}
MOUNTED = {**POD, "status": {"conditions": [{"type": "PodReadyToStartContainers", "status": "True"}]}}
WAITING = SubmissionStatus(state=SubmissionState.SUBMITTED)


def add(
    server: FakeApi, message: str, reason: str = "FailedMount", at: str = "2026-01-01T00:00:00Z", uid: str = "u1"
) -> None:
    event = {"involvedObject": {"uid": uid}, "reason": reason, "message": message, "lastTimestamp": at}
    server.put(PATH, {"metadata": {"name": f"{uid}-{at}"}, **event})


async def explain(server: FakeApi, pod: dict[str, Any] = POD, status: SubmissionStatus = WAITING) -> SubmissionStatus:
    return await DriverEvents(KubernetesApi(server, 10), "team-a", ManualClock()).explain(pod, status)


async def test_a_volume_that_does_not_exist_is_named_with_the_remedy(server: FakeApi) -> None:
    add(server, 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found')
    explained = await explain(server, UNMOUNTED)
    assert explained.message.startswith(
        'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found: create what'
    )
    assert not explained.can_start
    assert await explain(server) == replace(explained, can_start=True)  # A kubelet before version 1.29.


async def test_the_text_of_another_event_is_no_missing_volume(server: FakeApi) -> None:
    """A probe quotes what a container answers. The text is long enough to detect a search that is quadratic."""
    add(server, "FailedMount: " * 30_000 + 'secret "keys" not found', "Unhealthy", uid="u1")
    explained = await explain(server, UNMOUNTED)
    assert (explained.message[:24], explained.can_start) == ("Unhealthy: FailedMount: ", True)


async def test_an_event_that_is_over_is_no_cause(server: FakeApi) -> None:
    """The Secret was created a moment after the pod. The image is pulled, and the event is still the newest warning."""
    add(server, 'MountVolume.SetUp failed for volume "keys" : secret "keys" not found')
    assert await explain(server, MOUNTED) == WAITING


async def test_the_newest_other_warning_is_reported_and_the_driver_may_start(server: FakeApi) -> None:
    add(server, "old", at="2026-01-01T00:00:00Z")
    add(server, "timed out\nwaiting", "FailedAttachVolume", at="2026-01-01T00:00:09Z")
    explained = await explain(server)
    assert (explained.message, explained.can_start) == ("FailedAttachVolume: timed out waiting", True)


async def test_a_csi_driver_that_is_not_registered_yet_may_appear(server: FakeApi) -> None:
    add(server, "driver name ebs.csi.aws.com not found in the list of registered CSI drivers")
    explained = await explain(server)
    assert explained.message.startswith("FailedMount: driver name ebs.csi.aws.com not found")
    assert explained.can_start


async def test_a_list_that_hangs_delays_the_status_for_a_second_and_explains_it_later(server: FakeApi) -> None:
    events = DriverEvents(KubernetesApi(server, 10), "team-a", ManualClock())
    add(server, "timed out")
    server.delay_s = 1.5 * LONGEST_WAIT_S
    assert await events.explain(POD, WAITING) == WAITING
    assert await events.explain(POD, WAITING) != WAITING
    assert len(server.requests) == 1
    await events.close()


async def test_a_read_in_progress_ends_with_the_client(server: FakeApi) -> None:
    events = DriverEvents(KubernetesApi(server, 60), "team-a", ManualClock())
    server.hangs = True
    assert await events.explain(POD, WAITING) == WAITING
    await events.close()
    assert events._reading is None


@pytest.mark.parametrize("name", ["copy-1-abc", "kube-root-ca.crt"])
async def test_objects_that_are_created_after_the_pod_are_no_cause(server: FakeApi, name: str) -> None:
    add(server, f'MountVolume.SetUp failed for volume "files" : configmap "{name}" not found')
    assert await explain(server) == WAITING


async def test_the_warnings_of_other_pods_are_no_cause(server: FakeApi) -> None:
    add(server, "timed out", uid="u2")
    assert await explain(server) == WAITING


async def test_images_are_left_to_the_status_of_the_pod(server: FakeApi) -> None:
    selectors: list[str] = []
    server.answer = lambda request: selectors.append(request.query["fieldSelector"])
    await explain(server)
    assert selectors == ["involvedObject.kind=Pod,type=Warning,reason!=Failed,reason!=BackOff,reason!=FailedScheduling"]


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        (POD, SubmissionStatus(state=SubmissionState.RUNNING)),
        (POD, SubmissionStatus(state=SubmissionState.SUBMITTED, message="Unschedulable")),
        ({**POD, "spec": {}}, WAITING),
    ],
)
async def test_events_are_read_only_if_the_status_explains_no_wait_on_a_node(
    server: FakeApi, pod: dict[str, Any], status: SubmissionStatus
) -> None:
    assert await explain(server, pod, status) == status
    assert server.requests == []


async def test_an_account_that_may_not_list_events_loses_the_explanation_only(server: FakeApi) -> None:
    server.answer = lambda _: failure(403, "no", "Forbidden")
    assert await explain(server) == WAITING


async def test_one_read_at_a_slow_rate_serves_all_drivers_that_wait(server: FakeApi) -> None:
    clock = ManualClock()
    events = DriverEvents(KubernetesApi(server, 10), "team-a", clock)
    pods = [{**POD, "metadata": {"name": f"copy-{number}", "uid": f"u{number}"}} for number in range(300)]
    add(server, "timed out", uid="u299")

    async def explained() -> list[str]:
        return [found.message for found in await asyncio.gather(*(events.explain(pod, WAITING) for pod in pods))]

    assert await explained() == [*[""] * 299, "FailedMount: timed out"]
    await clock.sleep(EVENTS_INTERVAL_S - 0.1)
    await explained()
    assert len(server.requests) == 1
    await clock.sleep(0.2)
    await explained()
    assert len(server.requests) == 2


async def test_a_read_that_takes_longer_than_the_interval_serves_all_drivers_that_wait(server: FakeApi) -> None:
    clock = ManualClock()
    events = DriverEvents(KubernetesApi(server, 10), "team-a", clock)
    server.answer = lambda _: clock._advance(timedelta(seconds=2 * EVENTS_INTERVAL_S))
    await asyncio.gather(*(events.explain(POD, WAITING) for _ in range(6)))
    assert len(server.requests) == 1
