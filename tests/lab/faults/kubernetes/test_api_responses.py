"""The API server refuses the requests of Airflow, or its responses do not arrive. Drivers and kubelets are not affected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.lab.faults.harness.deployment import LEASE_S
from tests.lab.faults.kubernetes.accounts import OBJECTS, airflow_account, expiring_token
from tests.lab.faults.kubernetes.cluster_job import DRIVERS, ClusterJob, created_job
from tests.lab.faults.kubernetes.conftest import CLIENT_TIMEOUT_S
from tests.support.kubernetes.accounts.manifests import access_to_nodes
from tests.support.kubernetes.client.api_proxy import ApiProxy, running_proxy
from tests.support.kubernetes.client.api_sources import KubeconfigSource
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace

pytestmark = pytest.mark.timeout(900)

Record = Callable[..., None]

TOKEN_LIFETIME_S = 60.0
"""Time in which the job starts."""


@pytest.fixture
def proxy(kubernetes_cluster: KubernetesCluster) -> Iterator[ApiProxy]:
    """A proxy between the job and the API server."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running_proxy(kubernetes_cluster.control_plane)) as running,
    ):
        yield running


@pytest.fixture
def job_behind_proxy(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path, proxy: ApiProxy
) -> Iterator[ClusterJob]:
    """A job that was not deployed yet."""
    control_plane = kubernetes_cluster.control_plane
    source = KubeconfigSource(control_plane, control_plane.admin, proxy.url)
    root = tmp_path / "job"
    with created_job(kubernetes_cluster, team, root, source=source, timeout_s=CLIENT_TIMEOUT_S) as created:
        yield created


def test_connections_that_are_half_open(job_behind_proxy: ClusterJob, proxy: ApiProxy, record: Record) -> None:
    """The watch receives nothing more and gets no error, so it must notice by itself, before the driver pod is deleted."""
    job = job_behind_proxy
    job.deploy()
    job.run_well()
    job.strike(proxy.silence_connections)
    job.team.api.delete(job.driver_path)
    job.wait_for_driver(epoch=2)
    job.recover()
    record("API server half-open", "open connections lose all data, then the driver pod is deleted", job.finish())


def test_response_that_is_lost(job_behind_proxy: ClusterJob, proxy: ApiProxy, record: Record) -> None:
    """The API server has created the pod of the next driver. The job finds the pod and creates what is missing."""
    job = job_behind_proxy
    job.deploy()
    job.run_well()
    proxy.lose_response("POST", "pods")
    job.strike(lambda: job.team.api.delete(job.driver_path))
    job.wait_for_driver(epoch=2)
    job.wait_for("the lost response", lambda: proxy.lost)
    job.recover()
    assert job.epoch == 2
    assert len(job.team.pods(DRIVERS)) == 1
    record("response lost", "of the request that creates the driver pod", job.finish())


def test_requests_that_are_refused_for_now(job_behind_proxy: ClusterJob, proxy: ApiProxy, record: Record) -> None:
    """Airflow gets 429 for all requests while the driver ends."""
    job = job_behind_proxy
    job.deploy()
    job.run_well()
    job.strike(lambda: setattr(proxy, "refuses", True))
    job.wait_for("429", lambda: "429" in (job.loop.last_error or ""))
    job.recover()
    job.team.api.delete(job.driver_path)
    job.last(LEASE_S)
    job.feed()
    proxy.refuses = False
    job.wait_for("the next driver", lambda: job.epoch > 1)
    job.recover(parallelism=2)
    record("API server responds with 429", "while the driver pod is deleted", job.finish())


def test_token_that_expires(
    kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path, record: Record
) -> None:
    """The credentials are renewed late, after the driver pod was deleted."""
    control_plane, renewed = kubernetes_cluster.control_plane, airflow_account(team)
    source = KubeconfigSource(control_plane, expiring_token(control_plane, team, TOKEN_LIFETIME_S))
    created = created_job(kubernetes_cluster, team, tmp_path / "job", source=source, timeout_s=CLIENT_TIMEOUT_S)
    with access_to_nodes(team.api, team), created as job:
        job.deploy()
        job.run_well()
        job.strike(lambda: None)
        job.wait_for("the error", lambda: "refuses the credentials" in (job.loop.last_error or ""))
        job.recover()
        assert job.epoch == 1
        job.team.api.delete(job.driver_path)
        source.credentials = renewed
        job.feed()
        job.wait_for_driver(epoch=2)
        job.recover(parallelism=2)
        record("token expired", "and is renewed after the driver pod was deleted", job.finish(*OBJECTS))
