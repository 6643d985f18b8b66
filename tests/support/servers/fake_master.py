"""A `FakeCluster` behind the HTTP servers of a Spark master, for tests of the real client without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_adaptive.ports import (
    SECRET_CONF_VARIABLE,
    ClusterSnapshot,
    DriverSubmission,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive.spark.address import ClusterAddress, MasterAddress
from airflow_adaptive.spark.rest import LOST_WORKER
from airflow_adaptive.testing.fakes.cluster import FakeCluster, FakeScript
from tests.support.coroutines import result_of

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
        parts = urlsplit(url)
        kind, _, submission_id = parts.path.removeprefix("/v1/submissions/").partition("/")
        with self.lock:
            if parts.path == "/json/":
                return self._count("state", _state(result_of(self.cluster.snapshot())))
            if parts.path.endswith("/log/"):
                (driver,), (output,) = (parse_qs(parts.query)[name] for name in ("driverId", "logType"))
                return self._count("log", self._log(driver, output))
            match method, kind:
                case "POST", "create":
                    created = result_of(self.cluster.submit(_submission(json.loads(body))))
                    return self._count("create", _response("CreateSubmissionResponse", submissionId=created))
                case "GET", "status":
                    status = result_of(self.cluster.status(unquote(submission_id)))
                    return self._count("status", _status(unquote(submission_id), status))
                case "POST", "kill":
                    result_of(self.cluster.kill(unquote(submission_id)))
                    return self._count("kill", _response("KillSubmissionResponse"))
                case _:
                    raise LookupError(f"{method} {url}: a master does not serve this URL")

    def _count(self, kind: str, answer: bytes) -> bytes:
        self.requests[kind] += 1
        return answer

    def _log(self, submission_id: str, output: str) -> bytes:
        text: str = getattr(result_of(self.cluster.driver_log(submission_id)), output)
        return f"==== Bytes 0-{len(text)} of {len(text)} of /work/{submission_id}/{output} ====\n{text}".encode()

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


def _state(cluster: ClusterSnapshot) -> bytes:
    """Return the state of the cluster in the format of `JsonProtocol.writeMasterState`."""
    worker_of = {name: pages.stdout.partition("/logPage")[0] for name, pages in cluster.log_pages.items()}
    ids = {worker.address: worker.worker_id for worker in cluster.workers}
    return json.dumps(
        {
            "workers": [
                {
                    "id": worker.worker_id,
                    "webuiaddress": worker.address,
                    "cores": worker.cores,
                    "coresfree": worker.cores_free,
                    "memory": worker.memory_mb,
                    "memoryfree": worker.memory_free_mb,
                    "state": "ALIVE",
                }
                for worker in cluster.workers
            ],
            "activeapps": [
                {"id": name, "name": cluster.names[name], "cores": cores} for name, cores in cluster.granted.items()
            ],
            "activedrivers": [
                {
                    "id": name,
                    "state": driver.state.value,
                    "cores": driver.cores,
                    "memory": driver.memory_mb,
                    "worker": ids.get(worker_of.get(name, ""), "None"),
                }
                for name, driver in cluster.drivers.items()
            ],
            "completeddrivers": [
                {"id": name, "worker": ids[address]}
                for name, address in worker_of.items()
                if name not in cluster.drivers
            ],
            "status": "ALIVE",
        }
    ).encode()


def _submission(request: Mapping[str, Any]) -> DriverSubmission:
    """Decode the submission in a `CreateSubmissionRequest`."""
    arguments, properties = list(request["appArgs"]), request["sparkProperties"]
    given: dict[str, list[str]] = {"--conf": [], "--py-files": [], "--name": [], "--master": []}
    while arguments[0].startswith("--"):
        given[arguments[0]].append(arguments[1])
        del arguments[:2]
    environment = dict(request["environmentVariables"])
    secret = json.loads(environment.pop(SECRET_CONF_VARIABLE, "{}"))
    return DriverSubmission(
        name=given["--name"][0],
        script=arguments[0],
        args=tuple(arguments[1:]),
        py_files=tuple(",".join(given["--py-files"]).split(",")),
        conf=dict(pair.split("=", 1) for pair in given["--conf"]) | secret,
        env=environment,
        driver_cores=int(properties["spark.driver.cores"]),
        driver_memory_mb=int(properties["spark.driver.memory"].rstrip("m")),
    )


def _status(submission_id: str, status: SubmissionStatus) -> bytes:
    """Return a status response. The status of a driver on a lost worker is ERROR, without a message."""
    lost = status.state is SubmissionState.UNKNOWN and status.message == LOST_WORKER
    known = status.state is not SubmissionState.UNKNOWN or lost
    return _response(
        "SubmissionStatusResponse",
        success=known,
        submissionId=submission_id,
        driverState="ERROR" if lost else status.state.value,
        workerHostPort=status.worker_address,
        message="" if lost else status.message,
    )


def _response(action: str, **fields: object) -> bytes:
    return json.dumps({"action": action, "serverSparkVersion": "fake", "success": True, **fields}).encode()
