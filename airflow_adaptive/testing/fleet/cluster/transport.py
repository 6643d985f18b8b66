"""The network between loops and masters: an httpx transport in virtual time, with the timeouts of httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx

from airflow_adaptive.spark.http import MAX_CONNECTIONS
from airflow_adaptive.testing.fleet.cluster.masters import Request, Response, SimulatedMasters, request_of
from airflow_adaptive.testing.fleet.kernel.kernel import Kernel


class SimulatedTransport(httpx.AsyncBaseTransport):
    """The connections of one client.

    Attributes:
        open_requests: number of requests without a response now.
    """

    def __init__(self, kernel: Kernel, masters: Callable[[str], SimulatedMasters]) -> None:
        """Create a transport without connections.

        Args:
            kernel: the kernel.
            masters: returns the masters of the cluster to which the host of a master or a worker belongs.
        """
        self.open_requests = 0
        self._kernel = kernel
        self._masters = masters
        self._connections = asyncio.Semaphore(MAX_CONNECTIONS)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return its response. Raises the errors of httpx."""
        timeouts = request.extensions["timeout"]
        async with self._connection(timeouts["pool"]):
            found = await self._exchange(request, timeouts)
        return httpx.Response(found.status, content=found.body, request=request)

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
        process, masters = self._kernel.process, self._masters(request.url.host)
        client = "" if process is None else process.name
        sent = request_of(
            client, request.method, str(request.url), request.headers, await request.aread(), request.url.host
        )
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
