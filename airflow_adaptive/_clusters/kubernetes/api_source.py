"""The source of the API client of a Kubernetes cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_adaptive._core.ports import ClusterUnreachableError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


class CredentialsError(ClusterUnreachableError):
    """The connection contains no credentials that can be loaded, or the credentials of another cluster."""


class ApiSource(Protocol):
    """Gives an API client with valid credentials.

    A client that the source has replaced stays open for the requests that use it; the source closes it with a later replacement, or in
    `close`. A request of a closed client fails as a request to a server that does not answer.
    """

    async def client(self) -> ApiClient:
        """Return the current client. The source replaces a client before its credentials expire.

        Raises `CredentialsError`, or `ClusterUnreachableError` if the connection cannot be read now.
        """
        ...

    async def renew(self, refused: ApiClient) -> bool:
        """Load the credentials again, because the API server refused a client with 401; return whether there is another client now.

        Loops that share the source load the credentials once, and not more often than every 30 seconds.
        """
        ...

    def explain_refusal(self) -> str:
        """Return why the API server may refuse the current credentials, and the remedy."""
        ...

    async def close(self) -> None:
        """Close all clients."""
        ...
