"""One HTTP request to a server of a standalone cluster, with its bearer token. Its errors tell which reaction is safe, and do not leave this package.

ProtocolError            the response is invalid
MasterError
├── NotConnectedError    the request was not sent
├── NoAnswerError        the request was sent; its outcome is unknown
├── ForeignAnswerError   the server is not a Spark master, or does not accept the token
├── RefusalError         the master responds with an error
└── NotLeadingError      the master is not the leader
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from airflow_adaptive._clusters.standalone.address import ClusterAddress

log = logging.getLogger(__name__)

RENEW_INTERVAL_S = 30.0
"""Shortest time between two reads of a connection whose token is refused."""

Renew = Callable[[], Awaitable[ClusterAddress | None]]
"""Reads the connection of a cluster again; None if the connection cannot be read now."""


class Credentials:
    """The token of a cluster, and the servers that may receive it.

    The masters name the addresses of their workers, and these addresses are not trusted. Only the configured servers of the masters, and
    hosts in the field `token-hosts` of the connection, receive the token. If the connection configures https for any server, no server
    receives the token over http.

    Attributes:
        token: current token, None without one.
        used: all tokens since the start, for masking.
    """

    def __init__(self, address: ClusterAddress, renew: Renew | None = None) -> None:
        self.token = address.token
        self.used = [address.token] if address.token else []
        self._address = address
        self._renew = renew
        self._renewing = asyncio.Lock()
        self._renewed_s = -math.inf
        self._servers = {url for master in address.masters for url in (master.ui_url, master.rest_url)}
        self._requires_https = any(url.startswith("https:") for url in self._servers)

    @property
    def connection(self) -> str:
        """The Airflow connection with the token, for messages."""
        return f"connection {self._address.conn_id!r}" if self._address.conn_id else "the connection"

    def cover(self, url: str) -> bool:
        """Return whether the server of a URL may receive the token."""
        parts = urlsplit(url)
        if self._requires_https and parts.scheme != "https":
            return False
        is_server = f"{parts.scheme}://{parts.netloc}" in self._servers
        return is_server or any(fnmatch(parts.hostname or "", host) for host in self._address.token_hosts)

    def headers(self, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request to a URL."""
        return {"Authorization": f"Bearer {self.token}"} if self.token and self.cover(url) else {}

    async def renew(self, refused: str | None) -> bool:
        """Read the connection again, because a server refused a token; return whether there is another token now.

        Many loops share the client, so the connection is read once for all of them. A connection that names other masters now does not
        change this client, because the driver runs on the cluster of these masters.
        """
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self.token == refused and self._renew is not None and now - self._renewed_s >= RENEW_INTERVAL_S:
                self._renewed_s = now
                self._adopt(await self._renew())
        return self.token != refused

    def _adopt(self, address: ClusterAddress | None) -> None:
        if address is None or address.token == self.token or set(address.masters) != set(self._address.masters):
            return
        log.info("The connection of %s has another token now.", self._address.master_url)
        self.token = address.token
        self.used += [address.token] if address.token else []


class ProtocolError(ValueError):
    """The response is not that of a Spark master or worker; the message names the problem."""


class MasterError(Exception):
    """A request to one master failed; another master may respond."""


class NotConnectedError(MasterError):
    """The request was not sent, so it is safe to send any request to another master."""


class NoAnswerError(MasterError):
    """The request was sent and may have been executed, but no response arrived."""


class ForeignAnswerError(MasterError):
    """The server is not a Spark master, or does not accept the token: the address or the token is wrong."""


class RefusalError(MasterError):
    """The master cannot fulfill the request; the message is the message of the master."""


class NotLeadingError(MasterError):
    """The master that responded is not the leader of the cluster."""


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
        self._credentials = credentials
        self._timeout_s = address.timeout_s
        self._client = httpx.AsyncClient(
            verify=address.tls(),
            transport=transport,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
            trust_env=False,  # a master is in the internal network, so no proxy applies
        )

    async def request(self, method: str, url: str, read: Read[Answer], hint: str, body: Any = None) -> Answer:
        """Return the value that `read` extracts from the JSON response; `hint` names what to check after an error. Raises `MasterError`."""
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
