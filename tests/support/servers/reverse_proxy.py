"""A reverse proxy in front of an HTTP server, such as an Ingress of Kubernetes."""

from __future__ import annotations

import http.client
import socketserver
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from tests.support.servers.background_server import BackgroundServer

TIMEOUT_S = 60.0


class ReverseProxy(socketserver.ThreadingMixIn, BackgroundServer):
    """Forwards all requests to one server. The server sees the name of the proxy in the header `Host`, as behind nginx.

    Attributes:
        requests: method and path of all requests.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(_Handler)
        self.location = urlsplit(url).netloc
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        """Address of the proxy."""
        return f"http://127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self) -> None:
        proxy = self.server
        assert isinstance(proxy, ReverseProxy)
        proxy.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {**dict(self.headers.items()), "Host": "spark.example.com", "X-Forwarded-For": self.client_address[0]}
        connection = http.client.HTTPConnection(proxy.location, timeout=TIMEOUT_S)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Encoding", "Location"):
            if answer.headers.get(name):
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
