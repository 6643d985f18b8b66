"""Servers that serve in a thread of their own."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Self


class BackgroundServer(socketserver.TCPServer):
    """Makes a server of this machine serve from the beginning to the end of its `with` block, at a port that is free."""

    def __init__(self, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.server_address[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
