"""A StatsD server that remembers the newest value of each gauge, and counts."""

from __future__ import annotations

import socketserver
from collections import Counter

from tests.support.servers.background_server import BackgroundServer


class Statsd(BackgroundServer, socketserver.UDPServer):
    """Takes metrics until its `with` block ends.

    Attributes:
        gauges: newest value of each.
        counts: sum of each counter.
    """

    def __init__(self) -> None:
        super().__init__(_Metric)
        self.gauges: dict[str, float] = {}
        self.counts: Counter[str] = Counter()

    @property
    def config(self) -> dict[str, str]:
        """What has Airflow send its metrics here."""
        options = {"statsd_on": "True", "statsd_host": "127.0.0.1", "statsd_port": str(self.port)}
        return {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}


class _Metric(socketserver.BaseRequestHandler):
    server: Statsd

    def handle(self) -> None:
        name, _, rest = self.request[0].decode().partition(":")
        value, kind = rest.split("|")[:2]
        if kind == "g":
            self.server.gauges[name] = float(value)
        elif kind == "c":
            self.server.counts[name] += int(value)
