"""The client against a real API server: what the API server decides."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from airflow_adaptive._clusters.kubernetes.names import DriverIdentity
from airflow_adaptive._core.ports import (
    ClusterUnreachableError,
    DriverSubmission,
    NotSubmittedError,
    SubmissionRefusedError,
    SubmissionState,
)
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace
from tests.support.waiting import wait_until_async

POD = DriverIdentity("departures", 1, "n").pod
PODS_ONLY = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "list", "watch", "delete"]}]

pytestmark = pytest.mark.asyncio


def submission(epoch: int = 1, template: dict[str, Any] | None = None, **parts: Any) -> DriverSubmission:
    """A driver for which no node exists."""
    conf = {"spark.kubernetes.container.image": SPARK, "spark.kubernetes.node.selector.missing": "node"}
    text = json.dumps(template or {})
    return DriverSubmission(
        name="departures", epoch=epoch, nonce="n", script="/jobs/run.py", conf=conf, driver_template=text, **parts
    )


async def wait_for(client: Client, submission_id: str, state: SubmissionState, message: str = "") -> None:
    async def reached() -> bool:
        status = await client.status(submission_id)
        return status.state is state and message in status.message

    await wait_until_async(reached, 180, f"{state} {message}")


async def wait_for_objects(team: Namespace, *names: str) -> None:
    await asyncio.to_thread(wait_until, lambda: team.remaining_objects() == [*names], 180, f"objects {names}")


async def test_a_waiting_driver_has_a_reason_and_leaves_nothing_after_its_kill(client: Client, team: Namespace):
    submitted = await client.submit(submission())
    assert await client.submit(submission()) == submitted
    assert team.remaining_objects() == [f"ConfigMap {POD}", f"Pod {POD}"]
    await wait_for(client, submitted, SubmissionState.SUBMITTED, "Unschedulable")
    await client.kill(submitted)
    await client.kill(submitted)
    await wait_for(client, submitted, SubmissionState.KILLED)
    await wait_for_objects(team)


async def test_the_next_epoch_replaces_a_driver_and_the_end_of_the_job_removes_it(client: Client, team: Namespace):
    await client.submit(submission(1))
    await client.submit(submission(2))
    second = DriverIdentity("departures", 2, "n").pod
    await wait_for_objects(team, f"ConfigMap {second}", f"Pod {second}")
    await client.clean_up("departures")
    await wait_for_objects(team)


async def test_a_misspelled_field_of_a_template_is_refused(client: Client, team: Namespace):
    with pytest.raises(SubmissionRefusedError, match='unknown field "spec.tolerationss"'):
        await client.submit(submission(template={"spec": {"tolerationss": []}}))
    assert team.remaining_objects() == []


async def test_an_invalid_template_is_refused(client: Client):
    with pytest.raises(SubmissionRefusedError, match="dnsPolicy"):
        await client.submit(submission(template={"spec": {"dnsPolicy": "Sometimes"}}))


async def test_a_quota_without_capacity_is_named(client: Client, team: Namespace):
    team.set_quota({"requests.memory": "64Mi"})
    with pytest.raises(NotSubmittedError, match="exceeded quota: quota, requested: requests.memory"):
        await client.submit(submission())
    assert (await client.snapshot()).limits[0].name == "quota"


async def test_missing_verbs_are_named_and_no_part_remains(
    kubernetes_control_plane: KubernetesCluster, team: Namespace
):
    control_plane = kubernetes_control_plane.control_plane
    async with cluster_client(control_plane, team.name, credentials=control_plane.user("airflow")) as client:
        with pytest.raises(ClusterUnreachableError, match='cannot list resource "pods"'):
            await client.submit(submission())
        team.grant("airflow", PODS_ONLY)
        await asyncio.to_thread(team.set_quota, {"pods": 5})

        async def refuses_part() -> bool:
            try:
                await client.submit(submission())
            except SubmissionRefusedError as error:
                return 'cannot create resource "configmaps"' in str(error)
            except ClusterUnreachableError:  # The role is not effective yet.
                return False
            return False

        await wait_until_async(refuses_part, 180, "refusal")
    await wait_for_objects(team, "ResourceQuota quota", "Role airflow", "RoleBinding airflow")


async def test_a_driver_that_is_deleted_by_force_without_a_node_never_ran(client: Client, team: Namespace):
    submitted = await client.submit(submission())
    await client.status(submitted)
    await asyncio.to_thread(team.api.delete, team.path("pods", POD), grace_period_s=0)
    await wait_for(client, submitted, SubmissionState.KILLED, "before it had a node")


async def test_a_hanging_api_server_is_noticed_and_the_watch_continues(
    kubernetes_control_plane: KubernetesCluster, team: Namespace
):
    control_plane = kubernetes_control_plane.control_plane
    async with cluster_client(control_plane, team.name, timeout_s=1) as client:
        submitted = await client.submit(submission())
        # Only a watch that began before the deletion receives the last object of the pod.
        await client.status(submitted)
        with control_plane.api_server.frozen(), pytest.raises(ClusterUnreachableError):
            await client.kill(submitted)

        async def killed() -> bool:
            try:
                await client.kill(submitted)
                return (await client.status(submitted)).state is SubmissionState.KILLED
            except ClusterUnreachableError:
                return False

        await wait_until_async(killed, 180, "kill")
