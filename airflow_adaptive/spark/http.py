"""One request to one server of a standalone master, with its failures told apart by what may be done about them."""

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
"""Makes sense of decoded JSON, or raises `ProtocolError`."""


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

    async def get(self, url: str, read: Read[Answer], hint: str) -> Answer:
        """What `read` makes of the JSON at `url`; `hint` says what to check if it is no Spark master's.

        Raises:
            MasterError: there is no such answer; says why.
        """
        return await self._ask("GET", url, read, hint)

    async def post(self, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
        """What `read` makes of the JSON that answers a POST; else as `get`."""
        return await self._ask("POST", url, read, hint, body)

    async def text(self, url: str, read: Callable[[str], Answer], hint: str, limit: int) -> Answer:
        """What `read` makes of the text at `url`, of which no more than `limit` bytes are read; else as `get`."""
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

    async def _ask(self, method: str, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
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
    if response.is_server_error:  # what it failed at may be done already
        raise NoAnswerError(f"{url}: the server failed ({response.status_code}): {hint}")
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise ForeignAnswerError(
            f"{url}: access denied ({response.status_code}): give the bearer token that the master's filter asks for as "
            "the connection's password"
        )


def _decode(response: httpx.Response) -> object:
    """The JSON of an answer, whatever its status: a Spark master explains its refusals in JSON too."""
    if response.has_redirect_location:
        raise ProtocolError(f"redirected to {response.headers['location']}")
    try:
        decoded: object = response.json()
    except ValueError as error:
        raise ProtocolError(f"the answer ({response.status_code}) is no JSON") from error
    return decoded


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
