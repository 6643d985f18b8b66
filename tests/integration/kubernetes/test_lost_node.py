"""The node of the driver is lost, and the executors on the other node hold the room that the next driver needs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_adaptive._airflow.declaration.kubernetes import KubernetesParameters
from airflow_adaptive._clusters.kubernetes.capacity.planned_pod import planned_executor
from airflow_adaptive._clusters.kubernetes.capacity.pod_requests import whole
from airflow_adaptive._core.ports import MIB
from tests.integration.kubernetes.test_job_directories import driver_pod, team_of
from tests.lab.faults.harness.deployment import MEMORY_MB
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.client.driver_job import pod_properties
from tests.support.kubernetes.client.streaming_job import StreamingJob
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import PAUSE
from tests.support.kubernetes.namespace import Namespace, wait_for_node
from tests.support.kubernetes.node import Node

EXECUTORS: Final = "spark-role=executor"


def fill(team: Namespace, node: Node, places: int, place_bytes: int) -> None:
    """Leave room for this number of drivers or executors on a node."""
    allocatable = team.api.get(f"/api/v1/nodes/{node.name}")["status"]["allocatable"]
    request = {"memory": str(whole(allocatable["memory"]) - places * place_bytes - 64 * MIB)}
    container = {"name": "pause", "image": PAUSE, "imagePullPolicy": "Never", "resources": {"requests": request}}
    team.create("Pod", f"fill-{node.name}", {"spec": {"nodeName": node.name, "containers": [container]}})
    team.wait_for_pod(f"fill-{node.name}", lambda pod: pod["status"]["phase"] == "Running")


def preferring(node: Node) -> dict[str, Any]:
    """A pod template of a driver that runs on a node if the node is ready."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}


@contextmanager
def frozen(node: Node) -> Iterator[None]:
    """Freeze the kubelet and all containers of a node, as a host that hangs does."""
    processes = node.processes()
    with node.kubelet.frozen():
        _send(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(processes, signal.SIGCONT)


def _send(processes: set[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


@pytest.mark.long
@pytest.mark.asyncio
@pytest.mark.timeout(900)
async def test_the_next_driver_gets_the_room_of_the_executors_of_a_lost_driver(
    kubernetes_cluster: KubernetesCluster, tmp_path: Path
) -> None:
    lost, other = kubernetes_cluster.nodes
    root = tmp_path / "job"
    conf = pod_properties(root, kubernetes_cluster.control_plane.url)
    place = planned_executor(conf, 1, MEMORY_MB).memory_bytes
    with team_of(kubernetes_cluster) as team:
        fill(team, lost, 1, place)
        fill(team, other, 2, place)
        async with cluster_client(kubernetes_cluster.control_plane, team.name) as client:
            parameters = KubernetesParameters(driver_pod_template=preferring(lost))
            job = StreamingJob(root, conf, client, parameters=parameters)
            async with job.running() as loop:
                job.feed()
                await job.wait_for_state(loop, "Executing", parallelism=2)
                await job.wait_rows()
                assert {pod["spec"]["nodeName"] for pod in team.pods(EXECUTORS)} == {other.name}
                first = driver_pod(loop)
                with frozen(lost):
                    job.feed()
                    await job.wait_rows()
                    assert driver_pod(loop) != first
                    await job.wait_for_state(loop, "Executing", parallelism=1)
                await asyncio.to_thread(wait_for_node, team.api, lost.name, "True")
                await job.suspend(loop)
    job.outcome(recovery_s=0).check()
