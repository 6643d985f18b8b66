"""Spark's own Kubernetes backend runs in real containers: a driver pod starts executor pods, which it owns."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.integration.kubernetes.servers.spark_job import create_job
from tests.support.kubernetes.api import Json
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.images import SPARK
from tests.support.kubernetes.namespace import Namespace, created_namespace, terminated, wait_for_node
from tests.support.kubernetes.node import Node

TIMEOUT_S = 180.0

EXECUTORS = "spark-role=executor"

SUM = """
import time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
while context._jsc.sc().getExecutorMemoryStatus().size() < 3:
    time.sleep(0.2)
hosts = context.parallelize(range(100), 4).map(lambda number: (__import__("socket").gethostname(), number))
print("sum", hosts.values().sum(), "on", hosts.keys().distinct().count() > 0, flush=True)
for step in range(10_000):
    open("steps", "w").write(str(step))
    time.sleep(0.2)
"""

TOO_MUCH_MEMORY = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": SPARK,
                "command": ["bash", "-c", "exec $PYSPARK_PYTHON -c 'bytearray(400 << 20)'"],
                "resources": {"limits": {"memory": "64Mi"}},
            }
        ],
    }
}


@pytest.fixture
def own(kubernetes_cluster: KubernetesCluster):
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        yield created


def test_a_driver_pod_runs_tasks_on_executor_pods_that_it_owns(kubernetes_cluster: KubernetesCluster, own: Namespace):
    create_job(own, kubernetes_cluster.control_plane.url, SUM, executors=2)
    wait_until(lambda: "sum 4950" in log_of(own, "job"), TIMEOUT_S, "result of the job")
    driver = own.api.get(own.path("pods", "job"))
    executors = own.pods(EXECUTORS)
    assert [owner["uid"] for pod in executors for owner in pod["metadata"]["ownerReferences"]] == (
        [driver["metadata"]["uid"]] * 2
    )
    assert memory_requests(executors) == ["712Mi", "712Mi"]
    own.api.delete(own.path("pods", "job"))
    wait_until(lambda: own.pods() == [], TIMEOUT_S, "end of the executors with their driver")


@pytest.mark.long
def test_a_driver_continues_on_a_node_that_is_not_ready(kubernetes_cluster: KubernetesCluster, own: Namespace):
    create_job(own, kubernetes_cluster.control_plane.url, SUM, executors=2)
    wait_until(lambda: "sum 4950" in log_of(own, "job"), TIMEOUT_S, "result of the job")
    node = kubernetes_cluster.node(own.api.get(own.path("pods", "job"))["spec"]["nodeName"])
    with node.kubelet.frozen():
        wait_for_node(own.api, node.name, "Unknown")
        pod = own.wait_for_pod("job", lambda pod: "deletionTimestamp" in pod["metadata"])
        before = steps(node)
        wait_until(lambda: steps(node) > before, 60, "steps of the driver")
    assert terminated(pod) is None
    wait_for_node(own.api, node.name, "True")
    wait_until(lambda: node.processes() == set(), TIMEOUT_S, "end of the evicted driver")


def test_a_container_above_its_memory_limit_is_killed(own: Namespace):
    own.create("Pod", "large", TOO_MUCH_MEMORY)
    pod = own.wait_for_pod("large", lambda pod: terminated(pod) is not None)
    state = terminated(pod)
    assert state is not None
    assert (state["reason"], state["exitCode"]) == ("OOMKilled", 137)


def steps(node: Node) -> int:
    """Return the steps that the driver on a node has made. The machine sees the file system of the container."""
    files = (Path("/proc", str(pid), "root/opt/spark/work-dir/steps") for pid in node.processes())
    return int(next(file.read_text() for file in files if file.exists()) or 0)


def log_of(namespace: Namespace, pod: str) -> str:
    """Return the log of a pod, which may not have started yet. A failed driver fails the test with its log."""
    state = namespace.api.get(namespace.path("pods", pod))
    started = state["status"]["phase"] not in {"Pending", "Unknown"}
    log = namespace.log(pod) if started else ""
    assert terminated(state) is None, log
    return log


def memory_requests(pods: list[Json]) -> list[str]:
    return [pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in pods]
