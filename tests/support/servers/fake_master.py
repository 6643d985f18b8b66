"""A `FakeCluster` behind the HTTP servers of a Spark master, for tests of the real client without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from airflow_adaptive._clusters.standalone.address import ClusterAddress, MasterAddress
from tests.lab.fakes.cluster import FakeCluster, FakeScript
from tests.lab.fakes.coroutines import result_of
from tests.lab.fakes.master import answer, request_kind

HOST = "127.0.0.1"


class _Server(ThreadingHTTPServer):
    """A server whose queue of new connections is as long as that of Spark's REST submission server."""

    daemon_threads = True
    request_queue_size = 50


class FakeMaster:
    """The web UI and the REST submission server of a master, and the web UIs of its workers, on one port.

    The servers run while the context manager is open.

    Attributes:
        cluster: fake cluster of the master. Other code must hold `lock` during calls to the cluster.
        lock: lock that the master holds during each request.
        requests: number of requests, by kind: state, create, status, kill, log.
        delay_s: time that each response takes, in seconds.
        most_at_once: largest number of requests that were delayed at the same time.
        token: bearer token that each request must carry, None if the master requires no token.
    """

    def __init__(self, scripts: Mapping[str, FakeScript] | None = None) -> None:
        """Bind the port. The master answers requests only while the context manager is open.

        Args:
            scripts: behavior of scripts, see `FakeCluster`.
        """
        self.delay_s = 0.0
        self.lock = threading.Lock()
        self.token: str | None = None
        self.requests: dict[str, int] = {"state": 0, "create": 0, "status": 0, "kill": 0, "log": 0}
        self.most_at_once = 0
        self._at_once = 0
        self._server = _Server((HOST, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.cluster = FakeCluster(scripts, lambda number: f"http://{HOST}:{self.port}/workers/{number}")

    @property
    def port(self) -> int:
        """Port of all servers."""
        return self._server.server_port

    @property
    def address(self) -> ClusterAddress:
        """Address of the master for a `StandaloneCluster`."""
        return ClusterAddress(masters=(MasterAddress(host=HOST, ui_port=self.port, rest_port=self.port),))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def begin(self, requests: int) -> None:
        """Count requests that begin their delay; a negative number of them ends it."""
        with self.lock:
            self._at_once += requests
            self.most_at_once = max(self.most_at_once, self._at_once)

    def answer(self, method: str, url: str, body: bytes) -> bytes:
        """Return the body of the response to a request."""
        with self.lock:
            found = result_of(answer(self.cluster, method, url, body))
            self.requests[request_kind(url)] += 1
            return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        master = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def log_message(self, *_: object) -> None:
                """Do not log requests to the output of the tests."""

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                master.begin(1)
                time.sleep(master.delay_s)
                master.begin(-1)
                is_allowed = master.token is None or self.headers["Authorization"] == f"Bearer {master.token}"
                answer = master.answer(self.command, self.path, body) if is_allowed else b""
                self.send_response(200 if is_allowed else 401)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        return Handler
