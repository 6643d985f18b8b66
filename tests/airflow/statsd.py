"""A StatsD server that remembers the newest value of each gauge, and counts."""

from __future__ import annotations

import socketserver
import threading
from collections import Counter
from types import TracebackType
from typing import Self


class Statsd(socketserver.UDPServer):
    """Takes metrics until its `with` block ends.

    Attributes:
        gauges: newest value of each.
        counts: sum of each counter.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Metric)
        self.gauges: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.server_address[1]
        return port

    @property
    def config(self) -> dict[str, str]:
        """What has Airflow send its metrics here."""
        options = {"statsd_on": "True", "statsd_host": "127.0.0.1", "statsd_port": str(self.port)}
        return {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Metric(socketserver.BaseRequestHandler):
    server: Statsd

    def handle(self) -> None:
        name, _, rest = self.request[0].decode().partition(":")
        value, kind = rest.split("|")[:2]
        if kind == "g":
            self.server.gauges[name] = float(value)
        elif kind == "c":
            self.server.counts[name] += int(value)
