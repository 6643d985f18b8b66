"""A receiver of OpenLineage events that keeps what it is sent."""

from __future__ import annotations

import gzip
import json
import socketserver
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.servers.background_server import BackgroundServer


class LineageServer(socketserver.ThreadingMixIn, BackgroundServer):
    """Receives the events of all clients over HTTP.

    Attributes:
        events: all events, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.events: list[dict[str, Any]] = []

    def runs(self, job: str) -> set[str]:
        """Return the ids of the runs of a job."""
        return {event["run"]["runId"] for event in self.events if event["job"]["name"] == job}

    def children(self, run: str) -> list[dict[str, Any]]:
        """Return the events whose parent is a run."""
        return [event for event in self.events if _parent(event) == run]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, LineageServer)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.events.append(json.loads(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _parent(event: dict[str, Any]) -> str | None:
    parent = event["run"].get("facets", {}).get("parent")
    return None if parent is None else str(parent["run"]["runId"])
