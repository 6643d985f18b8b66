"""The node of the driver is drained, not ready, lost or cordoned. In all tests the other node stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.lab.faults.harness.deployment import LEASE_S
from tests.lab.faults.kubernetes.cluster_job import EXECUTORS, ClusterJob
from tests.support.kubernetes.namespace import cordon, drain, terminated, wait_for_node
from tests.support.kubernetes.node import Node

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]


def test_node_that_is_drained(job: ClusterJob, record: Record) -> None:
    first = job.driver_node
    job.strike(lambda: cordon(job.team.api, first.name))
    drain(job.team.api, first.name)
    job.wait_for_driver(epoch=2)
    job.recover()
    assert job.driver_node.name != first.name
    record("node drained", "with the driver on it", job.finish())


def test_node_that_is_cordoned(job: ClusterJob, record: Record) -> None:
    """Pods that run continue; a new executor starts on the other node."""
    first = job.driver_node
    cordon(job.team.api, first.name)
    job.request(1)
    job.wait_for("one executor", lambda: job.is_executing(1) and len(job.team.pods(EXECUTORS)) == 1)
    known = {pod["metadata"]["name"] for pod in job.team.pods(EXECUTORS)}
    job.strike(lambda: job.request(2))
    job.recover(parallelism=2)
    new = [pod for pod in job.team.pods(EXECUTORS) if pod["metadata"]["name"] not in known]
    assert [pod["spec"]["nodeName"] for pod in new if pod["spec"]["nodeName"] == first.name] == []
    assert job.epoch == 1
    record("node cordoned", "with the driver on it, while the job grows", job.finish())


def test_cluster_that_is_cordoned(job: ClusterJob, record: Record) -> None:
    """No node accepts an executor, so the job does not grow and does not create a pod."""
    job.request(1)
    job.wait_for("one executor", lambda: job.is_executing(1) and len(job.team.pods(EXECUTORS)) == 1)
    first, other = job.driver_node.name, next(name for name in job.node_names if name != job.driver_node.name)
    cordon(job.team.api, first)
    job.strike(lambda: cordon(job.team.api, other))
    job.request(2)
    job.recover()
    job.last(LEASE_S)
    assert len(job.team.pods(EXECUTORS)) == 1
    cordon(job.team.api, other, unschedulable=False)
    job.wait_for("two slots", lambda: job.is_executing(2))
    assert job.epoch == 1
    record("node cordoned", "all nodes, until the job has not grown", job.finish())


def test_node_that_is_not_ready_and_ready_again(job: ClusterJob, record: Record) -> None:
    """The driver continues on the node, so nothing replaces it."""
    with job.driver_node.kubelet.frozen():
        job.strike(lambda: wait_for_node(job.team.api, job.driver_node.name, "Unknown"))
        job.recover()
    wait_for_node(job.team.api, job.driver_node.name, "True")
    job.recover()
    assert job.epoch == 1
    record("node not ready, then ready", "with the driver on it", job.finish())


def test_node_that_is_not_ready_until_its_pods_are_deleted(job: ClusterJob, record: Record) -> None:
    """The controllers delete the pod of the driver, but only the kubelet ends the driver."""
    pod = job.driver_path
    with job.driver_node.kubelet.frozen():
        job.strike(lambda: wait_for_node(job.team.api, job.driver_node.name, "Unknown"))
        job.team.api.wait_for(pod, lambda found: "deletionTimestamp" in found["metadata"], "deletion of the driver")
        job.last(LEASE_S)
        assert job.epoch == 1
        found = job.team.api.find(pod)
        assert found is not None
        assert terminated(found) is None
    job.wait_for_driver(epoch=2)
    job.recover()
    record("node not ready, then ready", "until the controllers had deleted the driver pod", job.finish())


@contextmanager
def started_again(node: Node) -> Iterator[None]:
    """Start a node that was lost at the end of the block."""
    try:
        yield
    finally:
        node.start()


def test_node_that_is_lost(job: ClusterJob, record: Record) -> None:
    """Nothing proves the end of the driver before its lease has expired. Its pod remains until the object of the node is deleted."""
    lost = job.driver_node
    with started_again(lost):
        job.strike(lost.lose)
        job.wait_for_driver(epoch=2)
        assert "is not ready" in job.failures()
        assert job.since_fault() >= LEASE_S
        job.recover()
        assert job.driver_node.name != lost.name
        job.team.api.delete(f"/api/v1/nodes/{lost.name}")
        record("node lost", "with the driver on it", job.finish())
