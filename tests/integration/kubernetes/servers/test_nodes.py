"""The nodes of the test cluster are real: they fail like nodes."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import (
    Namespace,
    cordon,
    created_namespace,
    drain,
    terminated,
    wait_for_node,
)
from tests.support.kubernetes.node import is_ready

SLEEP = "exec sleep 3600"


@pytest.fixture
def own(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        yield created


def start_pod(namespace: Namespace, name: str, node: str) -> None:
    container = {"name": "main", "image": SPARK, "command": ["bash", "-c", f": {name}; {SLEEP}"]}
    content = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container], "restartPolicy": "Never"}
    namespace.create("Pod", name, {"spec": {**content, "terminationGracePeriodSeconds": 1}})
    namespace.wait_for_pod(name, lambda pod: pod["status"]["phase"] == "Running")


def sleeping_on(cluster: KubernetesCluster, node: str) -> list[int]:
    """Return the ids of the processes that pods of `start_pod` run on a node."""
    return [pid for pid in cluster.node(node).processes() if "3600" in command_of(pid)]


def command_of(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def test_two_nodes_are_ready_with_the_memory_of_small_machines(own: Namespace, kubernetes_cluster: KubernetesCluster):
    nodes = own.api.list("/api/v1/nodes")
    assert [node["metadata"]["name"] for node in nodes if is_ready(node)] == ["node-1", "node-2"]
    memory = {int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) // 1024 for node in nodes}
    assert all(2900 < mib <= 3072 for mib in memory)


def test_a_process_continues_while_its_kubelet_restarts(own: Namespace, kubernetes_cluster: KubernetesCluster):
    start_pod(own, "driver", "node-1")
    before = sleeping_on(kubernetes_cluster, "node-1")
    kubernetes_cluster.node("node-1").kubelet.kill()
    assert sleeping_on(kubernetes_cluster, "node-1") == before != []
    kubernetes_cluster.node("node-1").start_kubelet()
    wait_for_node(own.api, "node-1", "True")
    assert sleeping_on(kubernetes_cluster, "node-1") == before


@pytest.mark.long
def test_a_lost_node_runs_nothing_until_it_starts_again(own: Namespace, kubernetes_cluster: KubernetesCluster):
    start_pod(own, "driver", "node-2")
    node = kubernetes_cluster.node("node-2")
    node.lose()
    assert node.processes() == set()
    wait_for_node(own.api, "node-2", "Unknown")
    assert own.api.get(own.path("pods", "driver"))["status"]["phase"] == "Running"
    node.start()
    own.wait_for_pod("driver", lambda pod: terminated(pod) is not None)
    start_pod(own, "second", "node-2")
    assert len(sleeping_on(kubernetes_cluster, "node-2")) == 1


@pytest.mark.long
def test_a_drained_node_runs_no_pods_and_accepts_none(own: Namespace, kubernetes_cluster: KubernetesCluster):
    start_pod(own, "driver", "node-1")
    drain(own.api, "node-1")
    try:
        assert own.pods() == []
        wait_until(lambda: sleeping_on(kubernetes_cluster, "node-1") == [], 60, "end of the process")
        with pytest.raises(TimeoutError, match="Unschedulable"):
            start_pod_for(own, 5)
    finally:
        cordon(own.api, "node-1", unschedulable=False)


def start_pod_for(namespace: Namespace, timeout_s: float) -> None:
    content = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}, "containers": [{"name": "main", "image": SPARK}]}
    namespace.create("Pod", "second", {"spec": content})
    namespace.wait_for_pod("second", lambda pod: pod["status"]["phase"] != "Pending", timeout_s)
