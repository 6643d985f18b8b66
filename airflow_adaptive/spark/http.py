"""One request to one server of a standalone master, with its failures told apart by what may be done about them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx

from airflow_adaptive.spark.address import ClusterAddress


class NotConnectedError(Exception):
    """Nothing was sent: trying another master is safe."""


class NoAnswerError(Exception):
    """It was sent and may have been carried out, but no answer came."""


class ForeignAnswerError(Exception):
    """What answered is no Spark master, or not one for us: the address or the token is wrong."""


class Http:
    """An HTTP client for the servers of the masters; its errors name the URL, never the token."""

    def __init__(self, address: ClusterAddress, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Make a client; it connects at the first request.

        Args:
            address: timeouts, TLS and the token.
            transport: in place of the network.
        """
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {address.token}"} if address.token else {},
            timeout=address.timeout_s,
            verify=address.tls(),
            transport=transport,
            trust_env=False,  # a master is inside the network: no proxy on the way
        )

    async def get(self, url: str, hint: str) -> Any:
        """The decoded JSON at `url`; `hint` says what to check if there is none. Raises this module's errors."""
        return await self._ask("GET", url, hint)

    async def post(self, url: str, hint: str, body: Any = None) -> Any:
        """The decoded JSON that answers a POST; else as `get`."""
        return await self._ask("POST", url, hint, body)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, method: str, url: str, hint: str, body: Any = None) -> Any:
        try:
            response = await self._client.request(method, url, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnectedError(f"{url}: {_why(error)}: {hint}") from error
        except httpx.TransportError as error:
            raise NoAnswerError(f"{url}: no answer ({_why(error)}): {hint}") from error
        return _decode(response, url, hint)


def _decode(response: httpx.Response, url: str, hint: str) -> Any:
    """The JSON of an answer; a Spark master explains its refusals in JSON too, whatever the status."""
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise ForeignAnswerError(
            f"{url}: access denied ({response.status_code}): give the bearer token that the master's filter asks for as "
            "the connection's password"
        )
    if response.has_redirect_location:
        raise ForeignAnswerError(f"{url}: redirected to {response.headers['location']}: {hint}")
    try:
        return response.json()
    except ValueError as error:
        raise ForeignAnswerError(f"{url}: the answer ({response.status_code}) is no JSON: {hint}") from error


def _why(error: BaseException) -> str:
    """The root of the matter in a few words."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return "unknown host"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "connection refused"
    return str(error) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            yield from error.exceptions
        error = error.__cause__ or error.__context__
