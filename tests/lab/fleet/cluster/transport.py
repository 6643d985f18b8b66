"""The network between loops and masters: an httpx transport in virtual time, with the timeouts of httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest.mock import patch

import httpx

from airflow_adaptive._clusters.standalone.http import MAX_CONNECTIONS
from tests.lab.fleet.cluster.masters import Request, Response, SimulatedMasters, request_of
from tests.lab.fleet.kernel.kernel import Kernel


class SimulatedTransport(httpx.AsyncBaseTransport):
    """The connections of one client.

    Attributes:
        client: name of the process of the client.
        open_requests: number of requests without a response now.
        is_closed: whether the client has released its connections.
    """

    def __init__(self, kernel: Kernel, masters: Callable[[str], SimulatedMasters]) -> None:
        """Create a transport without connections.

        Args:
            kernel: the kernel.
            masters: returns the masters of the cluster to which the host of a master or a worker belongs.
        """
        self.client = "" if kernel.process is None else kernel.process.name
        self.open_requests = 0
        self.is_closed = False
        self._kernel = kernel
        self._masters = masters
        self._connections = asyncio.Semaphore(MAX_CONNECTIONS)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return its response. Raises the errors of httpx."""
        timeouts = request.extensions["timeout"]
        async with self._connection(timeouts["pool"]):
            found = await self._exchange(request, timeouts)
        return httpx.Response(found.status, content=found.body, request=request)

    async def aclose(self) -> None:
        """Release the connections."""
        self.is_closed = True

    @asynccontextmanager
    async def _connection(self, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s if self._connections.locked() else None):
                await self._connections.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("no connection is free") from None
        self.open_requests += 1
        try:
            yield
        finally:
            self.open_requests -= 1
            self._connections.release()

    async def _exchange(self, request: httpx.Request, timeouts: dict[str, float]) -> Response:
        masters, host = self._masters(request.url.host), request.url.host
        body = await request.aread()
        sent = request_of(self.client, request.method, str(request.url), request.headers, body, host)
        effects = masters.effects(sent)
        if "disconnect" in effects:
            await asyncio.sleep(timeouts["connect"])
            raise httpx.ConnectTimeout("the host does not answer")
        if "refuse" in effects:
            raise httpx.ConnectError("connection refused")
        response = await self._response(masters, sent, timeouts["read"])
        if response.is_lost:
            raise httpx.ReadError("the connection was reset")
        return response

    async def _response(self, masters: SimulatedMasters, request: Request, timeout_s: float) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        process = self._kernel.process

        def deliver(response: Response) -> None:
            if not answer.done():
                answer.set_result(response)

        masters.send(request, lambda response: self._kernel.at(self._kernel.now, lambda: deliver(response), process))
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise httpx.ReadTimeout("no response") from None


@contextmanager
def installed(kernel: Kernel, masters: Callable[[str], SimulatedMasters]) -> Iterator[list[SimulatedTransport]]:
    """Let all HTTP clients use simulated transports, because clients of the product open connections themselves.

    Args:
        kernel: the kernel.
        masters: see `SimulatedTransport`.

    Returns:
        The transports of all clients since the start.
    """
    transports: list[SimulatedTransport] = []

    class SimulatedClient(httpx.AsyncClient):
        def __init__(self, **options: Any) -> None:
            transport = SimulatedTransport(kernel, masters)
            transports.append(transport)
            super().__init__(**{**options, "transport": transport})

    with patch.object(httpx, "AsyncClient", SimulatedClient):
        yield transports
