"""The namespace and the client of tests of the control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace


@pytest.fixture
def team(kubernetes_control_plane: KubernetesCluster) -> Iterator[Namespace]:
    """A namespace of a test that needs no nodes."""
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        yield created


@pytest_asyncio.fixture
async def client(kubernetes_control_plane: KubernetesCluster, team: Namespace) -> AsyncIterator[Client]:
    """A client for the namespace, with the account of the administrator."""
    async with cluster_client(kubernetes_control_plane.control_plane, team.name) as created:
        yield created
