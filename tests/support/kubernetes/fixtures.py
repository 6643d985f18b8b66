"""Fixtures of the tests on Kubernetes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.kubernetes.api import KubernetesApi
from tests.support.kubernetes.cluster import KubernetesCluster, running_cluster
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.kubernetes.requirements import CONTEXT_VARIABLE, MissingRequirementError, require_programs

KUBECONFIG: Final = Path("~/.kube/config")

OWN_CLUSTER: Final = frozenset({"kubernetes_control_plane", "kubernetes_cluster"})
"""Fixtures of a cluster that a test may break."""


def stays_in_namespace(item: pytest.Item) -> bool:
    """Return whether a test changes nothing outside a namespace of its own, so that it can run on an existing cluster."""
    fixtures = set(getattr(item, "fixturenames", ()))
    return "kubernetes_api" in fixtures and not OWN_CLUSTER & fixtures


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


@pytest.fixture(scope="session")
def kubernetes_api(request: pytest.FixtureRequest) -> Iterator[KubernetesApi]:
    """A client of the existing cluster that AIRFLOW_ADAPTIVE_TEST_KUBE_CONTEXT selects, otherwise of a cluster with real nodes."""
    if context := os.environ.get(CONTEXT_VARIABLE):
        api = api_of_context(context)
    else:
        cluster: KubernetesCluster = request.getfixturevalue("kubernetes_cluster")
        api = cluster.control_plane.api(cluster.control_plane.admin)
    with api:
        yield api


@pytest.fixture
def namespace(kubernetes_api: KubernetesApi) -> Iterator[Namespace]:
    """A namespace of the test."""
    with created_namespace(kubernetes_api) as created:
        yield created


def api_of_context(context: str) -> KubernetesApi:
    """Return a client of a context of `~/.kube/config`."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 (only users of an existing cluster need it)

    configuration = client.Configuration()
    loading = config.load_kube_config(str(KUBECONFIG.expanduser()), context, client_configuration=configuration)
    asyncio.run(loading)
    token = configuration.api_key.get("BearerToken", "").removeprefix("Bearer ")
    pair = (Path(str(configuration.cert_file)), Path(str(configuration.key_file))) if configuration.cert_file else None
    ca = Path(str(configuration.ssl_ca_cert))
    return KubernetesApi(str(configuration.host), ca=ca, token=token or None, certificate=pair)


def _missing() -> str | None:
    try:
        require_programs()
    except MissingRequirementError as error:
        return str(error)
    return None
