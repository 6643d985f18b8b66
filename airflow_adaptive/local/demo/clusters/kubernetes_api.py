"""A small client of the API server in a context of a kubeconfig. The demo creates its namespace with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, ApiException
from kubernetes_asyncio.config import ConfigException

from airflow_adaptive.local.demo.clusters.cluster import DemoEnvironmentError

Json = Mapping[str, Any]

HEADERS = {"Accept": "application/json", "Content-Type": "application/json"}

TIMEOUT_S = 30.0

NOT_FOUND = 404


class KubernetesApi:
    """Sends one request at a time.

    Attributes:
        kubeconfig: the file that contains the context.
        server: URL of the API server.
    """

    def __init__(self, kubeconfigs: Sequence[Path], context: str) -> None:
        """Read the kubeconfigs.

        Raises:
            DemoEnvironmentError: no kubeconfig has such a context.
        """
        self._context = context
        self.kubeconfig, self.server = self._find(kubeconfigs)

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

    def _find(self, kubeconfigs: Sequence[Path]) -> tuple[Path, str]:
        """Return the first kubeconfig that contains the context, and the URL of its API server."""
        errors: list[str] = []
        for file in kubeconfigs:
            try:
                return file, asyncio.run(self._server(file))
            except (ConfigException, OSError, TypeError, yaml.YAMLError) as error:
                errors.append(f"{file}: {error}")
        raise DemoEnvironmentError(
            f"no kubeconfig has the context {self._context!r} ({'; '.join(errors)}): correct --context (make: CONTEXT=...), or name the file with "
            "--kubeconfig or KUBECONFIG"
        )

    async def _server(self, kubeconfig: Path) -> str:
        async with await self._client(kubeconfig) as client:
            return str(client.configuration.host)

    async def _client(self, kubeconfig: Path) -> ApiClient:
        return await config.new_client_from_config(str(kubeconfig), self._context)

    async def _request(self, method: str, path: str, body: Json | None = None) -> Json | None:
        async with await self._client(self.kubeconfig) as client:
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
                raise DemoEnvironmentError(
                    f"the API server {self.server} of context {self._context!r} in {self.kubeconfig} cannot be reached: {error}"
                ) from error
        if status == NOT_FOUND and method in ("GET", "DELETE"):
            return None
        answer: Json = json.loads(text) if text.startswith("{") else {"message": text}
        if not response.ok:
            raise DemoEnvironmentError(f"{method} {path}: {answer.get('message')}")
        return answer
