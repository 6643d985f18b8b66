"""Fixtures of the tests on Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kubernetes.cluster import KubernetesCluster, running_cluster
from tests.support.kubernetes.requirements import MissingRequirementError, require_programs


@pytest.fixture(scope="session")
def kubernetes_control_plane() -> Iterator[KubernetesCluster]:
    """A real control plane. It has no nodes, unless a test of the session uses `kubernetes_cluster`."""
    if (missing := _missing()) is not None:
        pytest.fail(missing, pytrace=False)
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes_cluster(kubernetes_control_plane: KubernetesCluster) -> KubernetesCluster:
    """The control plane with two real nodes. A test that breaks a part repairs it."""
    kubernetes_control_plane.start_nodes()
    return kubernetes_control_plane


def _missing() -> str | None:
    try:
        require_programs()
    except MissingRequirementError as error:
        return str(error)
    return None
