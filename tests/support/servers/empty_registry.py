"""A registry on loopback that has no image. A node that pulls an image gets a definite answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

UNKNOWN: Final = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(UNKNOWN)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(UNKNOWN)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def empty_registry() -> Iterator[str]:
    """Run the registry for the duration of the block, and give its host and port. A node uses HTTP for `localhost`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
