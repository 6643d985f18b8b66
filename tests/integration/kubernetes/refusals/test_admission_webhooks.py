"""Real admission webhooks that refuse driver pods, fail, or do not answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster as Client
from airflow_adaptive._core.ports import DriverSubmission, NotSubmittedError, SubmissionRefusedError
from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.client.refusals import accepts_driver
from tests.support.kubernetes.cluster import KubernetesCluster
from tests.support.kubernetes.namespace import Namespace, created_namespace
from tests.support.servers.tls_server import TlsServer

pytestmark = pytest.mark.asyncio

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

SUBMISSION = DriverSubmission(
    name="departures", epoch=1, nonce="n", script="/run.py", conf={"spark.kubernetes.container.image": "spark"}
)


class Refusal(BaseHTTPRequestHandler):
    """Refuses each object, with the default status of a refusal."""

    status: ClassVar[dict[str, Any]] = {"message": "drivers need the label cost-center"}

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": False, "status": self.status}
        body = json.dumps({**review, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Failure(Refusal):
    """Reports an error of its own."""

    status: ClassVar[dict[str, Any]] = {"message": "the database of teams is down", "code": 500}


@pytest.fixture
def team(kubernetes_control_plane: KubernetesCluster) -> Iterator[Namespace]:
    """A namespace without accounts and nodes, in place of the one that the other refusals need."""
    control_plane = kubernetes_control_plane.control_plane
    with control_plane.api(control_plane.admin) as api, created_namespace(api) as created:
        yield created


@contextmanager
def webhook(team: Namespace, server: TlsServer) -> Iterator[None]:
    """Let a server decide on the pods of a namespace. Returns when the API server knows the webhook."""
    certificate = base64.b64encode(server.certificate.read_bytes()).decode()
    hook = {
        "name": "costs.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{server.port}/", "caBundle": certificate},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.name}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    team.api.create(WEBHOOKS, {**kind, "metadata": {"name": "costs"}, "webhooks": [hook]})
    try:
        wait_until(lambda: not accepts_driver(team), 180, "the webhook")
        yield
    finally:
        team.api.delete(f"{WEBHOOKS}/costs")


async def test_a_refusal_of_a_webhook_is_final_and_has_its_message(
    client: Client, team: Namespace, tmp_path: Path
) -> None:
    with (
        TlsServer(tmp_path, Refusal) as server,
        webhook(team, server),
        pytest.raises(SubmissionRefusedError, match='"costs.example.com" denied the request: drivers need the label'),
    ):
        await client.submit(SUBMISSION)
    assert team.remaining_objects() == []


async def test_an_error_of_a_webhook_is_no_final_refusal(client: Client, team: Namespace, tmp_path: Path) -> None:
    with (
        TlsServer(tmp_path, Failure) as server,
        webhook(team, server),
        pytest.raises(NotSubmittedError, match="the database of teams is down"),
    ):
        await client.submit(SUBMISSION)
    assert team.remaining_objects() == []


async def test_a_webhook_that_does_not_answer_is_named(client: Client, team: Namespace, tmp_path: Path) -> None:
    with TlsServer(tmp_path, Refusal) as server:
        pass
    with webhook(team, server), pytest.raises(NotSubmittedError, match='failed calling webhook "costs.example.com"'):
        await client.submit(SUBMISSION)
    assert team.remaining_objects() == []
