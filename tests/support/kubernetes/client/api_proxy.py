"""A proxy in front of the API server: it refuses requests, and loses one response, or all data of the connections so far.

A proxy of TCP connections cannot select a response. The API server itself can be down, slow or hanging (`ClusterProcess`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from tests.support.kubernetes.control_plane import ControlPlane

OF_CONNECTIONS: Final = ("Connection", "Transfer-Encoding", "Content-Length", "Host")
"""Headers that a proxy does not forward."""

TOO_MANY_REQUESTS: Final = {
    "kind": "Status",
    "code": 429,
    "reason": "TooManyRequests",
    "message": "Too many requests, please try again later.",
}


class ApiProxy:
    """Forwards requests of clients with a token.

    Attributes:
        url: URL of the proxy.
        lost: requests whose response was lost.
        refuses: whether the proxy answers 429 to all requests, as an overloaded API server does.
    """

    def __init__(self, url: str, server: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.lost: list[str] = []
        self.refuses = False
        self._server = server
        self._session = session
        self._lose: tuple[str, str] | None = None
        self._silent: set[Any] = set()
        self._connections: set[Any] = set()

    def lose_response(self, method: str, resource: str) -> None:
        """Lose the response to the next request of a method for a collection, such as `POST` and `pods`. The server handles the request."""
        self._lose = method, resource

    def silence_connections(self) -> None:
        """Transmit no more data on the open connections, and keep them open, as after a lost route. New connections work."""
        self._silent |= self._connections

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Forward one request."""
        connection = request.transport
        self._connections.add(connection)
        await self._wait_if_silent(connection)
        if self.refuses:
            return web.json_response(TOO_MANY_REQUESTS, status=429, headers={"Retry-After": "1"})
        body = await request.read()
        async with self._session.request(
            request.method, self._server + request.path_qs, headers=_forwarded(request.headers), data=body
        ) as answer:
            if self._lose == (request.method, request.path.rpartition("/")[2]):
                return self._close(request)
            return await self._forward(request, answer)

    async def _forward(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
        await self._wait_if_silent(request.transport)
        await response.prepare(request)
        async for part in answer.content.iter_any():
            await self._wait_if_silent(request.transport)
            await response.write(part)
        return response

    def _close(self, request: web.Request) -> web.StreamResponse:
        self._lose = None
        self.lost.append(f"{request.method} {request.path}")
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _wait_if_silent(self, connection: Any) -> None:
        if connection in self._silent:
            await asyncio.Event().wait()


@asynccontextmanager
async def running_proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    """Run a proxy of the API server for the duration of the block."""
    address = control_plane.address
    pair = control_plane.certificates.server("proxy", [address], ())
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(pair.certificate, pair.key)
    trusted = ssl.create_default_context(cafile=control_plane.certificates.ca)
    connector = aiohttp.TCPConnector(ssl=trusted, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        proxy = ApiProxy("", control_plane.url, session)
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, address, 0, ssl_context=serving).start()
        proxy.url = f"https://{address}:{runner.addresses[0][1]}"
        try:
            yield proxy
        finally:
            await runner.cleanup()


def _forwarded(headers: Any) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.title() not in OF_CONNECTIONS)
