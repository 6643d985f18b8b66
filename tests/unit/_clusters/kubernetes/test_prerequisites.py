"""What a cluster must have before the first driver of a job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.api import KubernetesApi
from airflow_adaptive._clusters.kubernetes.prerequisites import PERMISSIONS, Prerequisites
from airflow_adaptive._core.ports import ClusterRefusedError, ClusterUnreachableError
from tests.support.kubernetes.client.fake_api import FakeApi, failure

pytestmark = pytest.mark.asyncio

NEW = {"major": "1", "minor": "27+", "gitVersion": "v1.27.1-gke"}


class Server(FakeApi):
    """An API server with a version, on which the account has all permissions but some."""

    def __init__(self) -> None:
        super().__init__()
        self.version: Any = NEW
        self.missing: Collection[str] = ()
        self.names_user = True

    def _respond(self, request: web.Request, body: Any) -> web.Response:
        if request.path == "/version":
            return web.json_response(self.version) if self.version else failure(403, "forbidden", "Forbidden")
        if body["kind"] == "SelfSubjectAccessReview":
            wanted = body["spec"]["resourceAttributes"]
            name = "/".join(part for part in (wanted["resource"], wanted["subresource"]) if part)
            is_allowed = wanted["namespace"] == "team-a" and f"{wanted['verb']} {name}" not in self.missing
            return web.json_response({"status": {"allowed": is_allowed}})
        user = {"status": {"userInfo": {"username": "system:serviceaccount:team-a:airflow"}}}
        return web.json_response(user) if self.names_user else failure(404, "not found", "NotFound")

    @property
    def prerequisites(self) -> Prerequisites:
        return Prerequisites(KubernetesApi(self, 10), KubernetesAddress(server="https://api", namespace="team-a"))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with server.running():
        yield server


async def test_a_cluster_is_checked_once(server: Server) -> None:
    prerequisites = server.prerequisites
    await prerequisites.check()
    assert len(server.requests) == 1 + len(PERMISSIONS)
    await prerequisites.check()
    assert len(server.requests) == 1 + len(PERMISSIONS)


async def test_a_check_that_fails_is_repeated(server: Server) -> None:
    prerequisites = server.prerequisites
    server.missing = ["get pods/log"]
    with pytest.raises(ClusterRefusedError):
        await prerequisites.check()
    server.missing = []
    await prerequisites.check()


@pytest.mark.parametrize("version", [("1", "26"), ("1", "9+"), ("0", "99")])
async def test_an_old_version_is_refused(server: Server, version: tuple[str, str]) -> None:
    server.version = {"major": version[0], "minor": version[1], "gitVersion": "v-old"}
    with pytest.raises(
        ClusterRefusedError, match=r"https://api has Kubernetes v-old: upgrade the cluster to 1\.27 or later"
    ):
        await server.prerequisites.check()


@pytest.mark.parametrize(
    "version", [None, {}, {"major": "", "minor": ""}, {"major": "1", "minor": "27"}, {"major": "2", "minor": "0"}]
)
async def test_a_hidden_or_newer_version_is_accepted(server: Server, version: Any) -> None:
    server.version = version
    await server.prerequisites.check()


async def test_each_missing_verb_is_named(server: Server) -> None:
    server.missing = ["create pods", "get pods/log", "delete secrets"]
    with pytest.raises(ClusterRefusedError) as raised:
        await server.prerequisites.check()
    assert "the user 'system:serviceaccount:team-a:airflow' may not create pods, get pods/log, delete secrets" in str(
        raised.value
    )
    assert "docs/kubernetes/airflow-account.yaml" in str(raised.value)


async def test_an_old_cluster_does_not_name_the_user(server: Server) -> None:
    server.missing, server.names_user = ["create pods"], False
    with pytest.raises(ClusterRefusedError, match="the account of Airflow may not create pods in namespace 'team-a'"):
        await server.prerequisites.check()


async def test_permissions_that_cannot_be_read_are_no_reason_to_refuse(server: Server) -> None:
    server.answer = lambda request: failure(403, "no", "Forbidden") if request.method == "POST" else None
    await server.prerequisites.check()


async def test_a_server_that_does_not_answer_is_no_refusal(server: Server) -> None:
    server.answer = lambda _: failure(503, json.dumps("down"))
    with pytest.raises(ClusterUnreachableError):
        await server.prerequisites.check()
