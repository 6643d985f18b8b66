"""The namespace and the job of each test. All tests share one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.faults.kubernetes.cluster_job import ClusterJob, created_job
from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, cordon, created_namespace, wait_for_node

CLIENT_TIMEOUT_S = 3.0
"""Of a request, so that a fault of the API server has an effect within a minute."""


@pytest.fixture
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    """A namespace with an account for drivers. After the test, each node is ready for pods."""
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api:
        _require_nodes(kubernetes_cluster, api)
        with created_namespace(api) as created:
            created.create_service_account("spark")
            yield created
        _require_nodes(kubernetes_cluster, api)


def _require_nodes(cluster: KubernetesCluster, api: KubernetesApi) -> None:
    for node in cluster.nodes:
        cordon(api, node.name, unschedulable=False)
        wait_for_node(api, node.name, "True")


@pytest.fixture
def job(kubernetes_cluster: KubernetesCluster, team: Namespace, tmp_path: Path) -> Iterator[ClusterJob]:
    """A job that runs with two executors and has processed its input."""
    with created_job(kubernetes_cluster, team, tmp_path / "job", timeout_s=CLIENT_TIMEOUT_S) as created:
        created.deploy()
        created.run_well()
        yield created
