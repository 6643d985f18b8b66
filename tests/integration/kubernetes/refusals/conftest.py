"""The namespace of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kubernetes.accounts.manifests import apply_accounts
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace


@pytest.fixture(scope="module")
def team(kubernetes_cluster: KubernetesCluster) -> Iterator[Namespace]:
    """A namespace with the accounts of Airflow and of drivers."""
    control_plane = kubernetes_cluster.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        created.create_service_account("spark")
        apply_accounts(created)
        yield created
