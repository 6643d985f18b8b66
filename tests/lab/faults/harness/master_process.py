"""The master of a cluster that is killed and restarted, or whose address another process has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from airflow_adaptive.local import guardian
from airflow_adaptive.local.cluster import HOST, MASTER, MASTER_CLASS, LocalCluster
from airflow_adaptive.local.waiting import wait_until


def recovering(directory: Path) -> dict[str, str]:
    """Properties of a master that remembers workers, drivers and applications."""
    return {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": str(directory)}


def master_process(cluster: LocalCluster) -> psutil.Process:
    """Of the cluster."""
    (process,) = [
        process
        for process in guardian.marked(cluster._daemons._mark)
        if process.name() == "java" and MASTER_CLASS in process.cmdline()
    ]
    return process


def kill_master(cluster: LocalCluster) -> None:
    """-9."""
    cluster._daemons.end(MASTER, signal.SIGKILL)


def restart_master(cluster: LocalCluster) -> None:
    """At the same address; returns when it answers."""
    if MASTER in cluster._daemons._processes:
        cluster._daemons._processes.pop(MASTER).wait()
    arguments = ["--port", cluster._ports["master"], "--webui-port", cluster._ports["ui"]]
    properties = cluster._all_properties()
    assert cluster._daemons.launch(MASTER, MASTER_CLASS, arguments, properties, cluster._master_answers)


def wait_for_workers(cluster: LocalCluster, timeout_s: float = 180.0) -> None:
    """Workers find out that the master is back when they try again, which they do every few seconds."""
    wait_until(lambda: len(cluster._alive_workers()) == len(cluster.workers), timeout_s, "the workers")


@contextmanager
def impostor(cluster: LocalCluster) -> Iterator[None]:
    """A web server at the addresses of the master's UI and of its REST server."""
    with ExitStack() as stack:
        for url in (cluster.ui_url, cluster.rest_url):
            server = ThreadingHTTPServer((HOST, urlsplit(url).port or 0), _Impostor)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            for close in (server.server_close, thread.join, server.shutdown):  # the last one first
                stack.callback(close)
        yield


class _Impostor(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        page = b"<html><body>Welcome to the coffee machine.</body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""
