"""One HTTP request to a server of a standalone master. Its errors distinguish which reaction is safe."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from airflow_adaptive._clusters.standalone.address import ClusterAddress
from airflow_adaptive._clusters.standalone.credentials import Credentials
from airflow_adaptive._clusters.standalone.errors import (
    ForeignAnswerError,
    NoAnswerError,
    NotConnectedError,
    ProtocolError,
)

Answer = TypeVar("Answer")

Read = Callable[[object], Answer]
"""Converts decoded JSON to a value, or raises `ProtocolError`."""


MAX_CONNECTIONS = 50
"""Connections to the servers of a cluster. The queue of a Spark server for new connections is about as long, and a connection beyond the queue
may be reset after a request was sent."""

POST_QUEUE_TIMEOUT_S = 60.0
"""Longest wait of a POST request for a connection. A submission that fails without an attempt would restart its job."""

DENIED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)

TOKEN_FIX = "set the bearer token that the master's filter requires as the password of {connection}"
HOST_FIX = (
    "the token is sent only to the configured servers of the masters and to hosts in the extra `token-hosts`, and only over https if "
    "{connection} configures https (extra `ui-scheme`, `rest-scheme`)"
)


class Http:
    """An HTTP client for the servers of a cluster. Its errors contain the URL, but never the token."""

    def __init__(
        self, address: ClusterAddress, credentials: Credentials, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Create a client; it connects with the first request.

        Args:
            address: timeout and TLS options.
            credentials: token, and the servers that receive the token.
            transport: replacement for the network.
        """
        self._credentials = credentials
        self._timeout_s = address.timeout_s
        self._client = httpx.AsyncClient(
            verify=address.tls(),
            transport=transport,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
            trust_env=False,  # a master is in the internal network, so no proxy applies
        )

    async def request(self, method: str, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
        """Return the value that `read` extracts from the JSON response; `hint` names what to check after an error.

        Raises:
            MasterError: the request failed, or the response is invalid.
        """
        async with self._response(method, url, hint, body) as response:
            await response.aread()
            return read(_decode(response))

    async def text(self, url: str, read: Callable[[str], Answer], hint: str, limit: int) -> Answer:
        """Return the value that `read` extracts from the first `limit` bytes of the text at `url`. Otherwise like `request`."""
        data = b""
        async with self._response("GET", url, hint) as response:
            async for chunk in response.aiter_bytes(limit):
                data = (data + chunk)[:limit]
                if len(data) == limit:
                    break
            return read(data.decode(errors="replace"))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    @asynccontextmanager
    async def _response(self, method: str, url: str, hint: str, body: Any = None) -> AsyncIterator[httpx.Response]:
        """The response to a request, before its body is read. A response that does not end raises an error at the deadline."""
        queue_s = POST_QUEUE_TIMEOUT_S if method == "POST" else self._timeout_s
        deadline_s = queue_s + 2 * self._timeout_s  # for the queue, the connection and the response
        try:
            async with asyncio.timeout(deadline_s):
                response = await self._send(method, url, body, httpx.Timeout(self._timeout_s, pool=queue_s))
                try:
                    self._check(response, url, hint)
                    yield response
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotConnectedError(f"{url}: {_why(error)}: {hint}") from error
        except httpx.RequestError as error:
            raise NoAnswerError(f"{url}: no answer ({_why(error)}): {hint}") from error
        except TimeoutError as error:
            raise NoAnswerError(f"{url}: no complete answer within {deadline_s:g} s: {hint}") from error
        except ProtocolError as error:
            raise ForeignAnswerError(f"{url}: {error}: {hint}") from error

    async def _send(self, method: str, url: str, body: Any, timeouts: httpx.Timeout) -> httpx.Response:
        """Send a request, and send it again if the server refused a token that is not current any more."""
        while True:
            token = self._credentials.token
            headers = self._credentials.headers(url)
            request = self._client.build_request(method, url, json=body, headers=headers, timeout=timeouts)
            response = await self._client.send(request, stream=True)
            is_denied = response.status_code in DENIED and self._credentials.cover(url)
            if not is_denied or not await self._credentials.renew(token):
                return response
            await response.aclose()

    def _check(self, response: httpx.Response, url: str, hint: str) -> None:
        if response.is_server_error:  # the server may have executed the request
            raise NoAnswerError(f"{url}: the server failed ({response.status_code}): {hint}")
        if response.status_code in DENIED:
            fix = TOKEN_FIX if self._credentials.token is None or self._credentials.cover(url) else HOST_FIX
            named = fix.format(connection=self._credentials.connection)
            raise ForeignAnswerError(f"{url}: access denied ({response.status_code}): {named}")


def _decode(response: httpx.Response) -> object:
    """Return the JSON of a response with any status, because a Spark master also explains rejections in JSON."""
    if response.has_redirect_location:
        raise ProtocolError(f"redirected to {response.headers['location']}")
    try:
        decoded: object = response.json()
    except (RecursionError, ValueError) as error:
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
