"""API clients for the product's client, from kubeconfigs of the test cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient

from airflow_adaptive._clusters.kubernetes.address import KubernetesAddress
from airflow_adaptive._clusters.kubernetes.client import KubernetesCluster
from airflow_adaptive._engine.clock import SystemClock
from tests.support.kubernetes.control_plane import ControlPlane, Credentials

TLS_SHUTDOWN_S = 0.5
"""Time in which the connections of a client end after its `close`, which does not wait for those of canceled requests.

Source: aiohttp's documentation, section "Graceful Shutdown".
"""


class KubeconfigSource:
    """An `ApiSource` with the credentials of a kubeconfig.

    Attributes:
        credentials: credentials of the next client.
        server: URL to which the clients connect.
    """

    def __init__(self, control_plane: ControlPlane, credentials: Credentials, server: str | None = None) -> None:
        self.credentials = credentials
        self.server = server or control_plane.url
        self._control_plane = control_plane
        self._loading = asyncio.Lock()
        self._client: ApiClient | None = None

    async def client(self) -> ApiClient:
        async with self._loading:
            if self._client is None:
                file = self._control_plane.write_kubeconfig("product", self.credentials)
                self._client = await config.new_client_from_config(str(file), "product")
                self._client.configuration.host = self.server
            return self._client

    async def renew(self, refused: ApiClient) -> bool:
        async with self._loading:
            if self._client is refused:
                self._client = None
                await refused.close()
        return True

    def explain_refusal(self) -> str:
        return "replace the kubeconfig"

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


@asynccontextmanager
async def cluster_client(
    control_plane: ControlPlane,
    namespace: str,
    *,
    credentials: Credentials | None = None,
    source: KubeconfigSource | None = None,
    **fields: Any,
) -> AsyncIterator[KubernetesCluster]:
    """The product's client of a namespace. At the end, nothing of the client runs."""
    source = source or KubeconfigSource(control_plane, credentials or control_plane.admin)
    address = KubernetesAddress(server=source.server, namespace=namespace, **fields)
    client = KubernetesCluster(address, source, SystemClock())
    try:
        yield client
    finally:
        await client.close()
        await asyncio.sleep(TLS_SHUTDOWN_S)
