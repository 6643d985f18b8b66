"""The driver pod is deleted, evicted, or exceeds its memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.faults.harness.deployment import LEASE_S
from tests.lab.faults.kubernetes.cluster_job import ClusterJob
from tests.support.kubernetes.namespace import evict

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]


def test_driver_pod_that_is_deleted(job: ClusterJob, record: Record) -> None:
    job.strike(lambda: job.team.api.delete(job.driver_path))
    job.wait_for_driver(epoch=2)
    assert "was deleted" in job.failures()
    job.recover()
    record("driver pod deleted", "while a query runs", job.finish())


def test_driver_pod_that_is_deleted_before_its_container_runs(job: ClusterJob, record: Record) -> None:
    job.team.api.delete(job.driver_path)
    job.wait_for_driver(epoch=2)
    job.wait_for("the second driver", lambda: job.loop.driver is not None and job.team.api.find(job.driver_path))
    job.strike(lambda: job.team.api.delete(job.driver_path), state="Deploying")
    job.wait_for_driver(epoch=3)
    job.recover()
    record("driver pod deleted", "while the driver starts", job.finish())


def test_driver_pod_that_is_deleted_by_force(job: ClusterJob, record: Record) -> None:
    """The object disappears at once, so nothing proves the end of the driver before its lease has expired."""
    job.strike(lambda: job.team.api.delete(job.driver_path, grace_period_s=0))
    job.team.api.wait_until_gone(job.driver_path)
    job.wait_for_driver(epoch=2)
    assert job.since_fault() >= LEASE_S
    job.recover()
    record("driver pod deleted by force", "while a query runs", job.finish())


def test_driver_pod_that_is_deleted_by_force_and_continues(job: ClusterJob, record: Record) -> None:
    """The kubelet is frozen, so the driver continues without a pod."""
    node = job.driver_node
    with node.kubelet.frozen():
        job.strike(lambda: job.team.api.delete(job.driver_path, grace_period_s=0))
        job.team.api.wait_until_gone(job.driver_path)
        job.last(LEASE_S / 2)
        assert job.epoch == 1
    job.wait_for_driver(epoch=2)
    job.recover()
    record("driver pod deleted by force", "while its kubelet is frozen, so that the driver continues", job.finish())


def test_driver_pod_that_is_evicted(job: ClusterJob, record: Record) -> None:
    job.strike(lambda: evict(job.team.api, job.team.name, job.driver_pod))
    job.wait_for_driver(epoch=2)
    job.recover()
    record("driver pod evicted (policy/v1)", "while a query runs", job.finish())


def test_driver_that_exceeds_its_memory(job: ClusterJob, record: Record, tmp_path: Path) -> None:
    job.strike((tmp_path / "job" / "in" / ".exceed-memory").touch)
    job.wait_for_driver(epoch=2)
    assert "OOMKilled" in job.failures()
    job.recover()
    record("driver pod OOMKilled", "by the memory limit of its container", job.finish())
