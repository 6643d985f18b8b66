"""A small client of the API server in a context of a kubeconfig. The demo creates its namespace with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException
from kubernetes_asyncio.config import ConfigException

from airflow_adaptive.local.demo.clusters.cluster import DemoEnvironmentError

Json = Mapping[str, Any]

HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}

TIMEOUT_S = 30.0

NOT_FOUND = 404


class KubernetesApi:
    """Sends one request at a time."""

    def __init__(self, kubeconfig: Path, context: str) -> None:
        """Read the kubeconfig.

        Raises:
            DemoEnvironmentError: the kubeconfig has no such context.
        """
        self._kubeconfig = kubeconfig
        self._context = context
        self.server: str = asyncio.run(self._server())

    def get(self, path: str) -> Json | None:
        """Return an object or a collection, None if it does not exist. Raises `DemoEnvironmentError`."""
        return asyncio.run(self._request("GET", path))

    def create(self, path: str, manifest: Json) -> None:
        """Create an object. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("POST", path, manifest))

    def replace(self, path: str, manifest: Json) -> None:
        """Replace an object. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("PUT", path, manifest))

    def delete(self, path: str) -> None:
        """Delete an object, which may exist for some time. An object that does not exist is no error. Raises `DemoEnvironmentError`."""
        asyncio.run(self._request("DELETE", path))

    async def _server(self) -> str:
        async with await self._client() as client:
            return str(client.configuration.host)

    async def _client(self) -> ApiClient:
        try:
            return await config.new_client_from_config(str(self._kubeconfig), self._context)
        except (ConfigException, OSError) as error:
            raise DemoEnvironmentError(f"context {self._context!r} of {self._kubeconfig}: {error}") from error

    async def _request(self, method: str, path: str, body: Json | None = None) -> Json | None:
        async with await self._client() as client:
            try:
                response = await client.call_api(
                    path,
                    method,
                    header_params=dict(HEADERS),
                    body=body,
                    auth_settings=["BearerToken"],
                    _preload_content=False,
                    _request_timeout=TIMEOUT_S,
                )
                status, text = response.status, await response.text()
            except (ApiException, aiohttp.ClientError, TimeoutError) as error:
                raise DemoEnvironmentError(f"the API server {self.server} cannot be reached: {error}") from error
        if status == NOT_FOUND and method in ("GET", "DELETE"):
            return None
        answer: Json = json.loads(text) if text.startswith("{") else {"message": text}
        if not response.ok:
            raise DemoEnvironmentError(f"{method} {path}: {answer.get('message')}")
        return answer
