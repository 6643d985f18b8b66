"""One HTTP request to a server of a standalone master. Its errors distinguish which reaction is safe."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from airflow_adaptive.spark.address import ClusterAddress
from airflow_adaptive.spark.errors import ForeignAnswerError, NoAnswerError, NotConnectedError, ProtocolError

Answer = TypeVar("Answer")

Read = Callable[[object], Answer]
"""Converts decoded JSON to a value, or raises `ProtocolError`."""


class Http:
    """An HTTP client for the servers of the masters. Its errors contain the URL, but never the token."""

    def __init__(self, address: ClusterAddress, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Create a client; it connects with the first request.

        Args:
            address: timeout, TLS options and token.
            transport: replacement for the network.
        """
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {address.token}"} if address.token else {},
            timeout=address.timeout_s,
            verify=address.tls(),
            transport=transport,
            trust_env=False,  # a master is in the internal network, so no proxy applies
        )

    async def get(self, url: str, read: Read[Answer], hint: str) -> Answer:
        """Return the value that `read` extracts from the JSON at `url`; `hint` names what to check after an error.

        Raises:
            MasterError: the request failed, or the response is invalid.
        """
        return await self._request("GET", url, read, hint)

    async def post(self, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
        """Return the value that `read` extracts from the JSON response to a POST request; otherwise like `get`."""
        return await self._request("POST", url, read, hint, body)

    async def text(self, url: str, read: Callable[[str], Answer], hint: str, limit: int) -> Answer:
        """Return the value that `read` extracts from the first `limit` bytes of the text at `url`.

        Otherwise like `get`.
        """
        data = b""
        with _explained(url, hint):
            async with self._client.stream("GET", url) as response:
                _check(response, url, hint)
                async for chunk in response.aiter_bytes(limit):
                    data = (data + chunk)[:limit]
                    if len(data) == limit:
                        break
            return read(data.decode(errors="replace"))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _request(self, method: str, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
        with _explained(url, hint):
            response = await self._client.request(method, url, json=body)
            _check(response, url, hint)
            return read(_decode(response))


@contextmanager
def _explained(url: str, hint: str) -> Iterator[None]:
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise NotConnectedError(f"{url}: {_why(error)}: {hint}") from error
    except httpx.RequestError as error:
        raise NoAnswerError(f"{url}: no answer ({_why(error)}): {hint}") from error
    except ProtocolError as error:
        raise ForeignAnswerError(f"{url}: {error}: {hint}") from error


def _check(response: httpx.Response, url: str, hint: str) -> None:
    if response.is_server_error:  # the server may have executed the request
        raise NoAnswerError(f"{url}: the server failed ({response.status_code}): {hint}")
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise ForeignAnswerError(
            f"{url}: access denied ({response.status_code}): set the bearer token that the master's filter requires as "
            "the connection's password"
        )


def _decode(response: httpx.Response) -> object:
    """Return the JSON of a response with any status, because a Spark master also explains rejections in JSON."""
    if response.has_redirect_location:
        raise ProtocolError(f"redirected to {response.headers['location']}")
    try:
        decoded: object = response.json()
    except ValueError as error:
        raise ProtocolError(f"the response ({response.status_code}) is not JSON") from error
    return decoded


def _why(error: BaseException) -> str:
    """Return the root cause in a few words."""
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
