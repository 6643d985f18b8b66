"""API clients of Kubernetes clusters, with credentials that the client replaces before they expire.

Theory: a loop runs for weeks, and the tokens of cloud providers expire after minutes. A client is therefore replaced in two cases: a
token of an exec credential will expire soon, or the API server has refused the credentials (401). Each replacement reads Airflow's
connection again, so a changed connection takes effect without a restart. Tokens of service accounts are read again by the library.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from kubernetes_asyncio import config as kubernetes_config
from kubernetes_asyncio.client import ApiClient, Configuration

from airflow_adaptive._airflow.internals import amask_secret
from airflow_adaptive._clusters.connection_fields import AddressError
from airflow_adaptive._clusters.kubernetes.address import CredentialsError, KubernetesAddress
from airflow_adaptive._core.ports import ClusterUnreachableError, PortError

log = logging.getLogger(__name__)

ReadFields = Callable[[], Awaitable[Mapping[str, Any]]]
"""Reads the fields of the connection (`KubernetesConnectionHook.fields`). Raises `AddressError` and `PortError`."""

EXPIRY_MARGIN: Final = timedelta(minutes=1)
"""A client is replaced this time before its token expires, or after half of the token's lifetime if the lifetime is short."""

RENEW_INTERVAL: Final = timedelta(seconds=30)
"""Shortest time between two loads of credentials that the API server refuses."""

RETRY_INTERVAL: Final = timedelta(seconds=5)
"""Shortest time between two loads of credentials that expire soon."""

LOAD_TIMEOUT: Final = timedelta(seconds=60)
"""Longest time of a program that returns an exec credential."""

OPEN_CLIENTS: Final = 3
"""Clients that stay open: the current client, and replaced clients for the requests that still use them."""

_BEARER: Final = "Bearer "


async def _credentials(fields: Mapping[str, Any]) -> tuple[Configuration, datetime | None]:
    """Load exactly the credentials that a connection selects, and return when the token of an exec credential expires, None for all others.

    Airflow's `AsyncKubernetesHook` falls back to the default kubeconfig.
    """
    configuration = Configuration()
    configuration.verify_ssl = not fields["disable_verify_ssl"]
    if fields["in_cluster"]:
        kubernetes_config.load_incluster_config(client_configuration=configuration)
        return configuration, None
    context = fields.get("cluster_context") or None
    if fields.get("kube_config"):
        loader = await kubernetes_config.load_kube_config_from_dict(fields["kube_config"], context, configuration)
    else:
        # The library only logs a warning if the file does not exist.
        await asyncio.to_thread(lambda: Path(fields["kube_config_path"]).expanduser().stat())
        loader = await kubernetes_config.load_kube_config(fields["kube_config_path"], context, configuration)
    return configuration, getattr(loader, "exec_plugin_expiry", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenClient:
    client: ApiClient
    loaded_at: datetime
    expires_at: datetime | None

    @property
    def renew_at(self) -> datetime:
        """When the client must be replaced."""
        if self.expires_at is None:
            return datetime.max.replace(tzinfo=UTC)
        return self.expires_at - min(EXPIRY_MARGIN, (self.expires_at - self.loaded_at) / 2)


class ConnectionApiSource:
    """An `ApiSource` (`_clusters.kubernetes.address`) whose credentials an Airflow connection contains."""

    def __init__(
        self,
        conn_id: str,
        read: ReadFields,
        address: KubernetesAddress,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._conn_id = conn_id
        self._read = read
        self._address = address
        self._now = now
        self._loading = asyncio.Lock()
        self._open: list[_OpenClient] = []
        self._tried_at = self._renewed_at = datetime.min.replace(tzinfo=UTC)

    async def client(self) -> ApiClient:
        """Return the current client, see `ApiSource.client`."""
        async with self._loading:
            if not self._open:
                await self._load()
            elif self._open[-1].renew_at <= self._now() and self._now() - self._tried_at >= RETRY_INTERVAL:
                await self._replace()
            return self._open[-1].client

    async def renew(self, refused: ApiClient) -> bool:
        """Load the credentials again, see `ApiSource.renew`."""
        async with self._loading:
            is_current = bool(self._open) and self._open[-1].client is refused
            if is_current and self._now() - self._renewed_at >= RENEW_INTERVAL:
                self._renewed_at = self._now()
                await self._replace()
            return bool(self._open) and self._open[-1].client is not refused

    def explain_refusal(self) -> str:
        """Return why the API server may refuse the current credentials, see `ApiSource.explain_refusal`."""
        found = expiry(self._open[-1].client.configuration) if self._open else None
        if found is not None and found.at <= self._now():
            return f"the {found.credential} of connection {self._conn_id!r} expired at {found.at:%Y-%m-%d %H:%M:%S} UTC: renew it"
        return f"replace the credentials of connection {self._conn_id!r}, or restore the account to which they belong"

    async def close(self) -> None:
        """Close all clients."""
        while self._open:
            await self._open.pop().client.close()

    async def _replace(self) -> None:
        """Replace the client. If the credentials cannot be loaded now, the current client stays, because it may still be valid."""
        try:
            await self._load()
        except ClusterUnreachableError as error:
            log.warning("The credentials of %s cannot be renewed now: %s", self._address.master_url, error)

    async def _load(self) -> None:
        self._tried_at = loaded_at = self._now()
        try:
            async with asyncio.timeout(LOAD_TIMEOUT.total_seconds()):
                configuration, expires_at = await _credentials(await self._read())
                await _mask(configuration)
                self._require_server(str(configuration.host))
                client = ApiClient(configuration=configuration)  # reads the certificates
        except Exception as error:
            if isinstance(error, PortError):  # The message names the connection.
                raise ClusterUnreachableError(str(error)) from error
            if isinstance(error, AddressError):
                raise CredentialsError(str(error)) from error
            detail = str(error).partition("{")[0]  # The rest may be a part of a kubeconfig, which may contain secrets.
            raise CredentialsError(
                f"connection {self._conn_id!r}: the credentials cannot be loaded: {type(error).__name__}: {detail}"
            ) from None
        self._open.append(_OpenClient(client=client, loaded_at=loaded_at, expires_at=expires_at))
        while len(self._open) > OPEN_CLIENTS:
            await self._open.pop(0).client.close()

    def _require_server(self, server: str) -> None:
        """Refuse the credentials of another cluster. Raises `AddressError`."""
        if not self._address.names_server(server):
            raise AddressError(
                f"connection {self._conn_id!r} has the credentials of {server}, but the host of the cluster is {self._address.master_url}: "
                f"correct one of the two connections. The host k8s://https://kubernetes.default.svc fits all credentials"
            )


async def _mask(configuration: Configuration) -> None:
    token = configuration.api_key.get("BearerToken")
    if token:
        await amask_secret(token.removeprefix(_BEARER))


@dataclass(frozen=True, slots=True)
class CredentialExpiry:
    """The end of the lifetime of a credential."""

    credential: str
    at: datetime


def expiry(configuration: Configuration) -> CredentialExpiry | None:
    """Return which credential of a configuration expires, and when; None if it cannot be read from the credentials."""
    token = str(configuration.api_key.get("BearerToken") or "").removeprefix("Bearer ")
    return _of_token(token) if token else _of_certificate(configuration.cert_file)


def _of_certificate(file: str | None) -> CredentialExpiry | None:
    if not file:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
    except (OSError, ValueError):
        return None
    return CredentialExpiry("client certificate", certificate.not_valid_after_utc)


def _of_token(token: str) -> CredentialExpiry | None:
    """Return the expiry of a JSON web token. Other tokens do not tell."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return CredentialExpiry("token", datetime.fromtimestamp(claims["exp"], UTC))
    except (ArithmeticError, LookupError, TypeError, ValueError, OSError):
        return None
