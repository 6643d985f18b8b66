"""The node of the driver is drained, not ready, lost or cordoned. In all tests the other node stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import yaml

from airflow_adaptive._core.scheduler.timeline import ReasonCode
from tests.lab.faults.harness.deployment import LEASE_S
from tests.lab.faults.kubernetes.cluster_job import EXECUTORS, ClusterJob
from tests.support.kubernetes.namespace import cordon, drain, terminated, wait_for_node
from tests.support.kubernetes.node import Node
from tests.support.repository import ROOT

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]


def test_node_that_is_drained(job: ClusterJob, record: Record) -> None:
    first = job.driver_node
    job.strike(lambda: cordon(job.team.api, first.name))
    drain(job.team.api, first.name)
    job.wait_for("the next driver", lambda: job.epoch > 1)
    job.recover()
    assert (job.failures(), job.driver_node.name == first.name) == ("", False)
    assert ReasonCode.DRIVER_MOVED in job.reasons()
    record("node drained", "with the driver on it", job.finish())


def test_node_that_is_drained_while_a_budget_keeps_the_driver(job: ClusterJob, record: Record) -> None:
    """The drain waits until the driver that is prepared on the other node has taken over."""
    (budget,) = yaml.safe_load_all((ROOT / "docs/kubernetes/driver-budget.yaml").read_text())
    job.team.create(budget["kind"], budget["metadata"]["name"], {"spec": budget["spec"]}, group=budget["apiVersion"])
    first = job.driver_node
    job.strike(lambda: cordon(job.team.api, first.name))
    drain(job.team.api, first.name)
    job.recover()
    assert (job.failures(), job.driver_node.name == first.name, job.epoch) == ("", False, 2)
    steps = (ReasonCode.MOVE_ANNOUNCED, ReasonCode.DRIVER_PREPARED, ReasonCode.DRIVER_MOVED)
    assert [reason for reason in job.reasons() if reason in steps] == [*steps]
    outcome = job.finish(f"{budget['kind']} {budget['metadata']['name']}")
    record("node drained", "with the driver on it, which a disruption budget keeps", outcome)


def test_node_that_is_cordoned(job: ClusterJob, record: Record) -> None:
    """A driver is prepared on the other node, and takes over."""
    first = job.driver_node
    job.strike(lambda: cordon(job.team.api, first.name))
    job.wait_for_driver(epoch=2)
    job.recover()
    assert (job.failures(), job.driver_node.name == first.name) == ("", False)
    record("node cordoned", "with the driver on it", job.finish())


def test_cluster_that_is_cordoned(job: ClusterJob, record: Record) -> None:
    """No node accepts an executor, so the job does not grow and does not create a pod."""
    job.request(1)
    job.wait_for("one executor", lambda: job.is_executing(1) and len(job.team.pods(EXECUTORS)) == 1)
    first, other = job.driver_node.name, next(name for name in job.node_names if name != job.driver_node.name)
    cordon(job.team.api, other)
    job.strike(lambda: cordon(job.team.api, first))
    job.wait_for("the node in a later reading", lambda: job.state.driver and job.state.driver.leaves)
    job.request(2)
    job.recover()
    job.last(LEASE_S)
    assert len(job.team.pods(EXECUTORS)) == 1
    cordon(job.team.api, other, unschedulable=False)
    job.wait_for("two slots", lambda: job.is_executing(2))
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
