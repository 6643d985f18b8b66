"""The control plane of the test cluster behaves like any other: users, quotas, outages."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from kubernetes_asyncio import client, config

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.api import ApiError, KubernetesApi
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.control_plane import Credentials
from tests.support.kubernetes.namespace import Namespace, created_namespace

READ_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]


@pytest.fixture
def admin(kubernetes_control_plane: KubernetesCluster):
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api(control_plane.admin) as api:
        yield api


@pytest.fixture
def team(admin: KubernetesApi):
    """A namespace of a cluster that needs no nodes."""
    with created_namespace(admin) as created:
        yield created


def status_of_list(cluster: KubernetesCluster, credentials: Credentials, namespace: Namespace) -> int:
    with cluster.control_plane.api(credentials) as api:
        try:
            api.list(namespace.path("pods"))
        except ApiError as error:
            return error.status
    return 200


@pytest.mark.asyncio
async def test_the_official_client_connects_with_a_kubeconfig(kubernetes_control_plane: KubernetesCluster, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/does/not/exist")
    control_plane = kubernetes_control_plane.control_plane
    file = control_plane.write_kubeconfig("reader", control_plane.user("reader", ["system:masters"]))
    api_client = await config.new_client_from_config(str(file), "reader")
    async with api_client:
        version = await client.VersionApi(api_client).get_code()
        namespaces = await client.CoreV1Api(api_client).list_namespace()
    assert version.git_version.startswith("v1.")
    assert {"default", "kube-system"} <= {namespace.metadata.name for namespace in namespaces.items}


def test_a_user_may_do_only_what_a_role_grants(kubernetes_control_plane: KubernetesCluster, team: Namespace):
    user = kubernetes_control_plane.control_plane.user("airflow")
    assert status_of_list(kubernetes_control_plane, user, team) == 403
    team.grant("airflow", READ_PODS)
    wait_until(lambda: status_of_list(kubernetes_control_plane, user, team) == 200, 60, "role")
    with created_namespace(team.api) as other:
        assert status_of_list(kubernetes_control_plane, user, other) == 403


def test_a_service_account_has_a_token(kubernetes_control_plane: KubernetesCluster, team: Namespace):
    team.create_service_account("driver", READ_PODS)
    account = Credentials(token=team.token("driver"))
    wait_until(lambda: status_of_list(kubernetes_control_plane, account, team) == 200, 60, "role")
    team.api.delete(team.path("serviceaccounts", "driver"))
    wait_until(lambda: status_of_list(kubernetes_control_plane, account, team) == 401, 60, "end of the token")


def test_an_expired_certificate_is_refused(kubernetes_control_plane: KubernetesCluster, team: Namespace):
    certificates = kubernetes_control_plane.control_plane.certificates
    expired = certificates.user("late", ["system:masters"], expires_in=timedelta(minutes=-5))
    assert status_of_list(kubernetes_control_plane, Credentials(certificate=expired), team) == 401


def test_a_frozen_api_server_keeps_requests_waiting(kubernetes_control_plane: KubernetesCluster, admin: KubernetesApi):
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api_server.frozen():
        assert not answers_within(control_plane.url, 2)
    assert answers_within(control_plane.url, 60)
    assert admin.get("/version")["major"] == "1"


@pytest.mark.long
def test_a_slowed_api_server_freezes_again_and_again(kubernetes_control_plane: KubernetesCluster):
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api_server.slowed(frozen_s=5, running_s=0.1):
        for _ in range(2):
            wait_until(lambda: not answers_within(control_plane.url, 1), 60, "frozen API server")
            wait_until(lambda: answers_within(control_plane.url, 1), 60, "running API server", 0.01)
    assert answers_within(control_plane.url, 60)


@pytest.mark.long
def test_servers_restart_with_their_objects(kubernetes_control_plane: KubernetesCluster, team: Namespace):
    control_plane = kubernetes_control_plane.control_plane
    team.create("ConfigMap", "settings", {})
    control_plane.etcd.kill()
    assert not team.api.responds("/readyz")
    control_plane.start_etcd()
    control_plane.api_server.kill()
    assert not answers_within(control_plane.url, 5)
    control_plane.start_api_server()
    assert team.remaining_objects() == ["ConfigMap settings"]


def answers_within(url: str, timeout_s: float) -> bool:
    """Return whether the API server completes a TLS handshake and answers, whatever the answer is."""
    try:
        httpx.get(f"{url}/version", verify=False, timeout=timeout_s, trust_env=False)
    except httpx.TransportError:
        return False
    return True
