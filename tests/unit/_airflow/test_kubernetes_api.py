"""API clients of Kubernetes: their credentials are replaced before they expire, and are those of the connection."""

from __future__ import annotations

import base64
import inspect
import json
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import certifi
import kubernetes_asyncio
import pytest
import pytest_asyncio
import yaml
from airflow.sdk._shared.secrets_masker import redact
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes_asyncio.client import ApiClient, Configuration

from airflow_adaptive._airflow.kubernetes_api import (
    OPEN_CLIENTS,
    RENEW_INTERVAL,
    ConnectionApiSource,
    CredentialExpiry,
    expiry,
)
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import CredentialsError, KubernetesAddress
from airflow_adaptive._core.ports import ClusterUnreachableError

NOW = datetime(2026, 1, 1, tzinfo=UTC)

FLAGS = {"in_cluster": False, "disable_verify_ssl": False}


def kubeconfig(server: str = "https://api:6443", authority: str = "", **user: Any) -> dict[str, Any]:
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("first", "second")]
    users = [{"name": "first", "user": user}, {"name": "second", "user": {"token": "second-token"}}]
    trusted = {"certificate-authority-data": base64.b64encode(authority.encode()).decode()} if authority else {}
    clusters = [{"name": "c", "cluster": {"server": server, **trusted}}]
    return {"current-context": "first", "contexts": contexts, "users": users, "clusters": clusters}


class Scene:
    """A connection whose fields a test can change, and a clock that a test can move."""

    def __init__(self, **fields: Any) -> None:
        self.fields: Mapping[str, Any] = FLAGS | fields
        self.error: Exception | None = None
        self.reads = 0
        self.at = NOW
        address = KubernetesAddress(server="https://api:6443")
        self.source = ConnectionApiSource("kubernetes_test", self.read, address, lambda: self.at)

    async def read(self) -> Mapping[str, Any]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.fields

    def token(self, value: str) -> None:
        self.fields = FLAGS | {"kube_config": kubeconfig(token=value)}


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene(kube_config=kubeconfig(token="old-token"))
    yield scene
    await scene.source.close()


raises_errors_of_programs = pytest.mark.skipif(
    int(kubernetes_asyncio.__version__.partition(".")[0]) < 34,
    reason="kubernetes_asyncio logs the error of a program, and the API server refuses the request without credentials",
)


async def token_of(client: ApiClient) -> str:
    settings: Any = client.configuration.auth_settings()  # a coroutine since kubernetes_asyncio 33
    found = await settings if inspect.isawaitable(settings) else settings
    return str(found["BearerToken"]["value"])


def is_open(client: ApiClient) -> bool:
    return not client.rest_client.pool_manager.closed


@pytest.mark.asyncio
async def test_kubeconfig_of_the_connection_gives_the_server_and_the_token(scene: Scene) -> None:
    client = await scene.source.client()
    assert (client.configuration.host, await token_of(client)) == ("https://api:6443", "Bearer old-token")
    assert client.configuration.verify_ssl


@pytest.mark.asyncio
async def test_loops_share_one_client(scene: Scene) -> None:
    assert await scene.source.client() is await scene.source.client()
    assert scene.reads == 1


@pytest.mark.asyncio
async def test_context_of_the_connection_selects_the_user(scene: Scene) -> None:
    scene.fields = {**scene.fields, "cluster_context": "second"}
    assert await token_of(await scene.source.client()) == "Bearer second-token"


@pytest.mark.asyncio
async def test_kubeconfig_file_is_read(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file-token")
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(tokenFile="token")))
    scene.fields = FLAGS | {"kube_config_path": str(tmp_path / "config"), "disable_verify_ssl": True}
    client = await scene.source.client()
    assert (await token_of(client), client.configuration.verify_ssl) == ("Bearer file-token", False)


@pytest.mark.asyncio
async def test_account_of_the_pod_is_used(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("TOKEN", "pod-token"), ("CERT", Path(certifi.where()).read_text())):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(f"kubernetes_asyncio.config.incluster_config.SERVICE_{name}_FILENAME", str(tmp_path / name))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "api")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    scene.fields = FLAGS | {"in_cluster": True, "disable_verify_ssl": True}
    assert await token_of(await scene.source.client()) == "Bearer pod-token"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kube_config_path": "/no/such/config"}, "'kubernetes_test': the credentials .*No such file.*/no/such/config"),
        ({"kube_config": kubeconfig(), "cluster_context": "third"}, "'kubernetes_test': the credentials .*third"),
        ({"kube_config": {}}, "'kubernetes_test': the credentials cannot be loaded"),
        (
            {"kube_config": kubeconfig(authority="none")},
            "'kubernetes_test': the credentials cannot be loaded: SSLError",
        ),
        ({"in_cluster": True}, "'kubernetes_test': the credentials .*Service host/port is not set"),
        (
            {"kube_config": kubeconfig("https://production")},
            "'kubernetes_test' has the credentials of https://production, but the host of the cluster is k8s://https://api:6443",
        ),
    ],
)
@pytest.mark.asyncio
async def test_credentials_that_cannot_be_loaded_are_named(
    scene: Scene, fields: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    scene.fields = FLAGS | fields
    with pytest.raises(CredentialsError, match=message):
        await scene.source.client()


@pytest.mark.asyncio
async def test_no_client_gets_the_credentials_of_another_cluster(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApiClient, "__init__", lambda *_, **__: pytest.fail("a client was created"))
    scene.fields = FLAGS | {"kube_config": kubeconfig("https://production")}
    with pytest.raises(CredentialsError, match="https://production"):
        await scene.source.client()


@pytest.mark.asyncio
async def test_refused_credentials_that_have_expired_are_named(scene: Scene) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": NOW.timestamp() + 60}).encode()).decode()
    scene.token(f"header.{claims}.signature")
    remedy = "replace the credentials of connection 'kubernetes_test', or restore the account to which they belong"
    assert scene.source.explain_refusal() == remedy
    await scene.source.client()
    assert scene.source.explain_refusal() == remedy
    scene.at += timedelta(seconds=60)
    assert (
        scene.source.explain_refusal()
        == "the token of connection 'kubernetes_test' expired at 2026-01-01 00:01:00 UTC: renew it"
    )


@raises_errors_of_programs
@pytest.mark.asyncio
async def test_error_does_not_repeat_the_content_of_a_kubeconfig(scene: Scene, tmp_path: Path) -> None:
    config = kubeconfig(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": None}, token="hush")
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    scene.fields = FLAGS | {"kube_config_path": str(tmp_path / "config")}
    with pytest.raises(ClusterUnreachableError, match="the credentials cannot be loaded") as caught:
        await scene.source.client()
    assert "hush" not in str(caught.value)


@pytest.mark.asyncio
async def test_missing_connection_is_named(scene: Scene) -> None:
    scene.error = AddressError("connection 'kubernetes_test' is not defined: add it")
    with pytest.raises(ClusterUnreachableError, match="^connection 'kubernetes_test' is not defined: add it$"):
        await scene.source.client()


@pytest.mark.asyncio
async def test_refused_client_is_replaced_once_for_all_loops(scene: Scene) -> None:
    first = await scene.source.client()
    scene.token("new-token")
    assert await scene.source.renew(first)
    assert await scene.source.renew(first)
    second = await scene.source.client()
    assert (await token_of(second), scene.reads) == ("Bearer new-token", 2)
    assert is_open(first)


@pytest.mark.asyncio
async def test_client_that_is_refused_again_is_replaced_only_after_an_interval(scene: Scene) -> None:
    await scene.source.renew(await scene.source.client())
    assert not await scene.source.renew(await scene.source.client())
    scene.at += RENEW_INTERVAL
    assert await scene.source.renew(await scene.source.client())


@pytest.mark.asyncio
async def test_replaced_clients_are_closed_later(scene: Scene) -> None:
    clients = [await scene.source.client()]
    for _ in range(OPEN_CLIENTS):
        scene.at += RENEW_INTERVAL
        await scene.source.renew(clients[-1])
        clients.append(await scene.source.client())
    assert [is_open(client) for client in clients] == [False, *[True] * OPEN_CLIENTS]
    await scene.source.close()
    assert not any(map(is_open, clients))


@pytest.mark.asyncio
async def test_client_stays_if_its_connection_cannot_be_read_again(scene: Scene) -> None:
    first = await scene.source.client()
    scene.error = AddressError("connection 'kubernetes_test' is not defined: add it")
    assert not await scene.source.renew(first)
    assert await scene.source.client() is first


@pytest.mark.asyncio
async def test_credentials_of_another_cluster_do_not_replace_the_client(scene: Scene) -> None:
    first = await scene.source.client()
    scene.fields = FLAGS | {"kube_config": kubeconfig("https://production", token="new-token")}
    assert not await scene.source.renew(first)
    assert await scene.source.client() is first


def exec_user(token: Path) -> dict[str, Any]:
    """A user of a kubeconfig whose token a program prints, as those of cloud providers do."""
    code = "import sys; print(open(sys.argv[1]).read())"
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", code, str(token)],
        }
    }


def write_token(file: Path, token: str, expires_at: datetime) -> None:
    status = {"token": token, "expirationTimestamp": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    file.write_text(
        json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    )


@pytest.mark.parametrize(("lifetime_s", "renew_s"), [(900, 840), (60, 30)])
@pytest.mark.asyncio
async def test_client_is_replaced_before_its_exec_token_expires(
    scene: Scene, tmp_path: Path, lifetime_s: int, renew_s: int
) -> None:
    write_token(tmp_path / "token", "exec-token-1", NOW + timedelta(seconds=lifetime_s))
    scene.fields = FLAGS | {"kube_config": kubeconfig(**exec_user(tmp_path / "token"))}
    first = await scene.source.client()
    write_token(tmp_path / "token", "exec-token-2", NOW + timedelta(hours=1))
    scene.at = NOW + timedelta(seconds=renew_s - 1)
    assert await scene.source.client() is first
    scene.at = NOW + timedelta(seconds=renew_s)
    assert await token_of(await scene.source.client()) == "Bearer exec-token-2"
    assert redact("exec-token-1 exec-token-2") == "*** ***"


@pytest.mark.asyncio
async def test_program_that_returns_an_expired_token_is_not_run_for_each_request(scene: Scene, tmp_path: Path) -> None:
    write_token(tmp_path / "token", "exec-token-1", NOW - timedelta(hours=1))
    scene.fields = FLAGS | {"kube_config": kubeconfig(**exec_user(tmp_path / "token"))}
    for _ in range(3):
        await scene.source.client()
    assert scene.reads == 1


@raises_errors_of_programs
@pytest.mark.asyncio
async def test_program_that_fails_is_named_with_its_output(scene: Scene) -> None:
    command = {"command": sys.executable, "args": ["-c", "raise SystemExit('log in first')"]}
    user: dict[str, Any] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}
    scene.fields = FLAGS | {"kube_config": kubeconfig(**user)}
    with pytest.raises(ClusterUnreachableError, match="'kubernetes_test': the credentials .*log in first"):
        await scene.source.client()


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def configuration(token: str = "", certificate: Path | None = None) -> Configuration:
    made = Configuration()
    made.api_key = {"BearerToken": f"Bearer {token}"} if token else {}
    made.cert_file = None if certificate is None else str(certificate)
    return made


def web_token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def test_the_expiry_of_a_web_token_is_known() -> None:
    assert expiry(configuration(web_token({"exp": AT.timestamp()}))) == CredentialExpiry("token", AT)


@pytest.mark.parametrize(
    "token", ["opaque", "a.b.c", web_token({}), web_token([]), web_token({"exp": "x"}), web_token({"exp": 1e30})]
)
def test_the_expiry_of_other_tokens_is_unknown(token: str) -> None:
    assert expiry(configuration(token)) is None


def test_the_expiry_of_a_client_certificate_is_known(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, AT - timedelta(days=1), AT)
    file = tmp_path / "me.crt"
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    assert expiry(configuration(certificate=file)) == CredentialExpiry("client certificate", AT)


def test_a_file_without_a_certificate_has_no_expiry(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("no certificate")
    assert expiry(configuration(certificate=tmp_path / "other")) is None
    assert expiry(configuration(certificate=tmp_path / "missing")) is None
    assert expiry(configuration()) is None
