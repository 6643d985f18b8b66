"""Servers of the control plane are down, slow or hang. The driver and its executors do not need them while a query runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.lab.faults.harness.deployment import LEASE_S
from tests.lab.faults.kubernetes.cluster_job import ClusterJob
from tests.support.kubernetes.cluster import KubernetesCluster

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]

LONGER_THAN_LEASE_S = 2.5 * LEASE_S


@pytest.fixture(autouse=True)
def ready_again(kubernetes_cluster: KubernetesCluster) -> Iterator[None]:
    """Wait after the test until the controllers work again, so that the next test can create its namespace."""
    yield
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api:
        api.wait_for("/api/v1/namespaces/default/serviceaccounts/default", lambda _: True, "the API server")


@contextmanager
def stopped(kill: Callable[[], None], start: Callable[[], None]) -> Iterator[None]:
    """Stop a server for the duration of the block."""
    try:
        kill()
        yield
    finally:
        start()


def test_api_server_that_is_down(kubernetes_cluster: KubernetesCluster, job: ClusterJob, record: Record) -> None:
    control_plane = kubernetes_cluster.control_plane
    with stopped(lambda: job.strike(control_plane.api_server.kill), control_plane.start_api_server):
        job.wait_for("the error", lambda: "the cluster does not answer" in (job.loop.last_error or ""))
        job.recover()
        job.last(LONGER_THAN_LEASE_S)
        assert job.epoch == 1
    job.feed()
    job.recover(parallelism=2)
    assert job.epoch == 1
    record("API server down", "for two and a half times the lease", job.finish())


def test_api_server_that_is_down_when_the_driver_ends(
    kubernetes_cluster: KubernetesCluster, job: ClusterJob, record: Record
) -> None:
    """No loop can observe the end of the driver or start the next one before the API server runs again."""
    control_plane, kill_driver = kubernetes_cluster.control_plane, job.driver_killer()
    with stopped(lambda: job.strike(control_plane.api_server.kill), control_plane.start_api_server):
        kill_driver()
        job.last(LONGER_THAN_LEASE_S)
    job.wait_for("the next driver", lambda: job.epoch > 1)
    job.recover(parallelism=2)
    record("API server down", "while the driver ends", job.finish())


def test_api_server_that_is_slow(kubernetes_cluster: KubernetesCluster, job: ClusterJob, record: Record) -> None:
    """The API server stands still for four of five moments while the job shrinks and grows."""
    with kubernetes_cluster.control_plane.api_server.slowed(frozen_s=0.8, running_s=0.2):
        job.strike(lambda: job.request(1))
        job.recover(parallelism=1)
        job.request(2)
        job.wait_for("two slots", lambda: job.is_executing(2))
        assert job.epoch == 1
    record("API server slow", "while the job shrinks and grows", job.finish())


def test_api_server_that_hangs(kubernetes_cluster: KubernetesCluster, job: ClusterJob, record: Record) -> None:
    with kubernetes_cluster.control_plane.api_server.frozen():
        job.strike(lambda: None)
        job.wait_for("the error", lambda: "did not answer in time" in (job.loop.last_error or ""))
        job.recover()
        job.last(LONGER_THAN_LEASE_S)
        assert job.epoch == 1
    job.feed()
    job.recover(parallelism=2)
    assert job.epoch == 1
    record("API server hanging", "for two and a half times the lease", job.finish())


def test_etcd_that_is_down(kubernetes_cluster: KubernetesCluster, job: ClusterJob, record: Record) -> None:
    control_plane = kubernetes_cluster.control_plane
    with stopped(lambda: job.strike(control_plane.etcd.kill), control_plane.start_etcd):
        job.recover()
        job.last(LONGER_THAN_LEASE_S)
        assert job.epoch == 1
    job.feed()
    job.recover(parallelism=2)
    assert job.epoch == 1
    record("etcd down", "for two and a half times the lease", job.finish())
