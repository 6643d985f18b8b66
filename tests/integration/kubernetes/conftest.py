"""The namespace and the client of tests of the control plane, and the selection of the tests that an existing cluster allows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from tests.support.kubernetes.client.api_sources import cluster_client
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.fixtures import stays_in_namespace
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.kubernetes.requirements import CONTEXT_VARIABLE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On an existing cluster, run only the tests that stay in a namespace of their own. Pytest counts the others as deselected."""
    if not os.environ.get(CONTEXT_VARIABLE):
        return
    here = [item for item in items if item.path.is_relative_to(os.path.dirname(__file__))]
    deselected = [item for item in here if not stays_in_namespace(item)]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]


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
