"""A job on a cluster that adds a node when a pod needs it. The test takes the place of the autoscaler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import resources
from airflow_adaptive._core.ports import MIB
from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import TIMEOUT_S, StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import PAUSE
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.kubernetes.node import Node
from tests.support.waiting import wait_until_async

POD_MIB = 712
"""Memory of a driver and of an executor: heap and overhead."""


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        yield created


@contextmanager
def removed(api: KubernetesApi, node: Node) -> Iterator[None]:
    """Remove a node from the cluster for the duration of the block."""
    node.kubelet.kill()
    api.delete(f"/api/v1/nodes/{node.name}")
    try:
        yield
    finally:
        if api.find(f"/api/v1/nodes/{node.name}") is None:
            node.start_kubelet()


def fill(team: Namespace, node: str, pods: int) -> None:
    """Leave memory for a number of drivers and executors on a node."""
    allocatable = resources(team.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"])
    requests = {"memory": str(allocatable.memory_bytes - (pods * POD_MIB + 50) * MIB)}
    container = {"name": "pause", "image": PAUSE, "resources": {"requests": requests}}
    team.create("Pod", "others", {"spec": {"nodeName": node, "containers": [container]}})


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_a_job_gets_a_node_that_joins_during_its_probe(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path
):
    first, late = kubernetes_cluster.nodes
    control_plane = kubernetes_cluster.control_plane
    cap = (3 * POD_MIB + 50) * MIB

    async def waiting_executor() -> bool:
        executors = await asyncio.to_thread(team.pods, "spark-role=executor")
        return [pod["spec"].get("nodeName") for pod in executors].count(None) == 1

    with removed(team.api, late):
        fill(team, first.name, 2)
        async with cluster_client(control_plane, team.name, max_memory_bytes=cap, has_node_autoscaling=True) as client:
            job = StreamingJob(tmp_path / "job", pod_properties(tmp_path / "job", control_plane.url), client)
            async with job.running() as loop:
                job.feed()
                await wait_until_async(waiting_executor, TIMEOUT_S, "an executor without a node")
                await asyncio.to_thread(late.start_kubelet)
                await job.wait_for_state(loop, "Executing", parallelism=2)
                job.feed()
                await job.wait_rows()
                nodes = {pod["spec"].get("nodeName") for pod in team.pods("spark-role=executor")}
                assert nodes == {first.name, late.name}
                await job.suspend(loop)
            job.outcome(recovery_s=0).check()
