"""A server on loopback that stands for an API server whose answers a test determines. The real API client talks to it.

The server keeps objects by their path, and nothing else: tests of what an API server decides run on a real one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes_asyncio.client import ApiClient, Configuration

Json = dict[str, Any]

COLLECTIONS = ("configmaps", "events", "limitranges", "nodes", "pods", "resourcequotas", "secrets")


def failure(status: int, message: str, reason: str = "") -> web.Response:
    """Return the response with which an API server refuses a request."""
    content = {"kind": "Status", "code": status, "reason": reason, "message": message}
    return web.json_response(content, status=status)


class FakeApi:
    """An API server, and an `ApiSource` of clients for it.

    Attributes:
        objects: path -> object.
        requests: method and path of all requests.
        answer: returns another response to a request, None for the usual one.
        events: watch events that the server sends next; None ends the watch.
        watches: queries of the watches.
        renewals: number of renewed clients.
        hangs: whether the server answers no request.
        delay_s: time before each answer, in seconds.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[str] = []
        self.answer: Callable[[web.Request], web.Response | None] = lambda _: None
        self.events: asyncio.Queue[Json | None] = asyncio.Queue()
        self.watches: list[dict[str, str]] = []
        self.renewals = 0
        self.hangs = False
        self.delay_s = 0.0
        self._clients: list[ApiClient] = []
        self._host = ""
        self._uids = 0

    async def client(self) -> ApiClient:
        if not self._clients:
            configuration = Configuration()
            configuration.host = self._host
            configuration.api_key["BearerToken"] = f"Bearer token-{self.renewals}"
            self._clients.append(ApiClient(configuration))
        return self._clients[-1]

    async def renew(self, refused: ApiClient) -> bool:
        self.renewals += 1
        await refused.close()
        self._clients.clear()
        return True

    def explain_refusal(self) -> str:
        return f"replace token-{self.renewals}"

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()

    def put(self, path: str, content: Json) -> Json:
        """Create an object as the API server does."""
        self._uids += 1
        metadata = {"uid": f"uid-{self._uids}", "resourceVersion": str(self._uids), **content.get("metadata", {})}
        created = {"status": {"phase": "Pending"}, **content, "metadata": metadata}
        self.objects[f"{path}/{metadata['name']}"] = created
        return created

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FakeApi]:
        """Run the server for the duration of the block."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await self.close()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.hangs:
            await asyncio.sleep(3600)
        self.requests.append(f"{request.method} {request.path}")
        await asyncio.sleep(self.delay_s)
        other = self.answer(request)
        if other is not None:
            return other
        if request.query.get("watch") == "true":
            return await self._watch(request)
        body = json.loads(await request.text() or "null")
        return self._respond(request, body)

    def _respond(self, request: web.Request, body: Any) -> web.Response:
        path = request.path
        if request.method == "POST":
            if f"{path}/{body['metadata']['name']}" in self.objects:
                return failure(409, f"{body['metadata']['name']} already exists", "AlreadyExists")
            return web.json_response(self.put(path, body), status=201)
        if path in self.objects:
            found = self.objects[path]
            expected = (body or {}).get("preconditions", {}).get("uid", found["metadata"]["uid"])
            if request.method == "DELETE" and expected != found["metadata"]["uid"]:
                return failure(409, "the UID in the precondition does not match", "Conflict")
            return web.json_response(self.objects.pop(path) if request.method == "DELETE" else found)
        items = [each for name, each in self.objects.items() if name.rpartition("/")[0] == path]
        if path.rpartition("/")[2] in COLLECTIONS:
            return web.json_response({"items": items, "metadata": {"resourceVersion": str(self._uids)}})
        return failure(404, f"{path} not found", "NotFound")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        self.watches.append(dict(request.query))
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await self.events.get()) is not None:
            await response.write(json.dumps(event).encode() + b"\n")
        return response
