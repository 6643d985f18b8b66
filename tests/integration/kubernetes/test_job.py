"""A job under the real loop on real nodes, whose resources, driver and nodes change. The strict sink shows lost and repeated records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_adaptive._engine.loop import Loop
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import TIMEOUT_S, StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace, wait_for_node

EXECUTORS = "spark-role=executor"

POD_MIB = 712
"""Memory of a driver and of an executor: heap and overhead."""

ACCOUNT = ["ResourceQuota quota", "Role spark", "RoleBinding spark", "ServiceAccount spark"]


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        yield created


async def set_quota(team: Namespace, pods: int) -> None:
    """Allow the memory of a number of pods."""
    await asyncio.to_thread(team.set_quota, {"requests.memory": f"{pods * POD_MIB + 50}Mi"})


def driver_pod(loop: Loop) -> str:
    driver = loop.state.driver
    assert driver is not None
    assert driver.submission_id is not None
    return driver.submission_id.partition("@")[0]


@pytest.mark.asyncio
@pytest.mark.timeout(900)
async def test_a_job_waits_starts_grows_and_processes_each_record_once(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
):
    control_plane = kubernetes_cluster.control_plane
    await set_quota(team, 1)
    async with cluster_client(control_plane, team.name) as client:
        job = StreamingJob(tmp_path / "job", pod_properties(tmp_path / "job", control_plane.url), client)
        async with job.running() as loop:
            job.feed()
            await job.wait_for_state(loop, "WaitingForResources")
            await asyncio.sleep(3)
            assert team.pods() == []
            await set_quota(team, 2)
            await job.wait_for_state(loop, "Executing", parallelism=1)
            assert "code-0" in team.api.get(team.path("configmaps", driver_pod(loop)))["binaryData"]
            await job.wait_rows()
            await set_quota(team, 3)
            await job.wait_for_state(loop, "Executing", parallelism=2)
            job.feed()
            await job.wait_rows()
            await set_quota(team, 1)  # Running pods continue.
            job.feed()
            await job.wait_rows()
            first = driver_pod(loop)
            await set_quota(team, 3)
            team.api.delete(team.path("pods", first))
            job.feed()  # The first driver may process the row before it leaves.
            has_moved = lambda: loop.driver is not None and driver_pod(loop) != first  # noqa: E731
            await asyncio.to_thread(wait_until, has_moved, TIMEOUT_S, "another driver")
            await job.wait_for_state(loop, "Executing")
            await job.wait_rows()
            await freeze_other_node(kubernetes_cluster, team, loop, job)
            await job.suspend(loop)
        job.outcome(recovery_s=0).check()
    await asyncio.to_thread(wait_until, lambda: team.remaining_objects() == ACCOUNT, TIMEOUT_S, "end of all objects")


async def freeze_other_node(cluster: KubernetesCluster, team: Namespace, loop: Loop, job: StreamingJob) -> None:
    """Freeze the kubelet of the node that does not run the driver, until the node is not ready and the job has processed more."""
    own = team.api.get(team.path("pods", driver_pod(loop)))["spec"]["nodeName"]
    other = next(node for node in cluster.nodes if node.name != own)
    with other.kubelet.frozen():
        await asyncio.to_thread(wait_for_node, team.api, other.name, "Unknown")
        job.feed()
        await job.wait_rows()
    await asyncio.to_thread(wait_for_node, team.api, other.name, "True")
