"""A real Spark standalone cluster on 127.0.0.1, which runs the Spark in the pyspark wheel.

The cluster consists of one master with a REST submission server and of workers, each in a process of its own. The cluster uses
free ports and small heaps, and reads nothing from the user's Spark configuration. A guardian process (`guardian.py`) ends every
process when the cluster is stopped, and also when the owner process dies for any reason.
"""

from __future__ import annotations

import json
import signal
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx

from airflow_adaptive.local import guardian
from airflow_adaptive.local.daemons import HOST, Daemons, free_port, listens
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

__all__ = ["HOST", "LocalCluster", "LocalWorker", "free_port"]

MASTER = "master"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"

PORT_ATTEMPTS = 3
"""Maximum number of starts of a daemon, each with other ports: another process may bind a free port before Spark does."""

HTTP_TIMEOUT_S = 60.0

LAUNCH_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWorker:
    """A worker of a `LocalCluster`.

    Attributes:
        name: "worker-1", "worker-2" and so on; the log and the directory of the worker have this name.
        worker_id: ID that the master assigned to the worker.
        pid: process ID of the worker's JVM.
        ui_url: address of the worker's web UI; executors on the worker report this address.
        cores: cores that the worker offers.
        memory_mb: memory that the worker offers to drivers and executors, in MiB.
    """

    name: str
    worker_id: str
    pid: int
    ui_url: str
    cores: int
    memory_mb: int


class LocalCluster:
    """A context manager that starts, changes and stops a Spark standalone cluster.

    Attributes:
        directory: directory with `logs/` of master and workers, `work/` with the output of drivers and executors, and `scratch/`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        daemon_memory_mb: int = 128,
        start_timeout_s: float = 60.0,
    ) -> None:
        """Describe a cluster. `start` starts the cluster.

        Args:
            directory: directory of all files. `stop` deletes only `scratch/`. Without this argument, the cluster uses a
                temporary directory, and `stop` deletes the whole directory.
            properties: Spark properties of the master and the workers that override the defaults of this module.
            daemon_memory_mb: heap of the master and of each worker, in MiB.
            start_timeout_s: maximum time until a daemon is ready, and until the master detects a change, in seconds.
        """
        temporary = Path(tempfile.gettempdir(), f"airflow-adaptive-{uuid.uuid4().hex}")
        self.directory = (directory or temporary).resolve()
        self._properties = dict(properties or {})
        self._start_timeout_s = start_timeout_s
        self._daemons = Daemons(
            self.directory,
            removed=self.directory / "scratch" if directory else self.directory,
            memory_mb=daemon_memory_mb,
            start_timeout_s=start_timeout_s,
        )
        self._workers: dict[str, LocalWorker] = {}
        self._worker_count = 0
        self._ports: dict[str, int] = {}

    @property
    def master_url(self) -> str:
        """Address of the master for applications and workers, `spark://host:port`."""
        return f"spark://{HOST}:{self._port('master')}"

    @property
    def rest_url(self) -> str:
        """Address of the master's REST submission server."""
        return f"http://{HOST}:{self._port('rest')}"

    @property
    def ui_url(self) -> str:
        """Address of the master's web UI."""
        return f"http://{HOST}:{self._port('ui')}"

    @property
    def airflow_connection(self) -> str:
        """Airflow connection to the cluster, as JSON for an environment variable `AIRFLOW_CONN_...`."""
        ports = {"ui-port": self._port("ui"), "rest-port": self._port("rest")}
        return json.dumps({"conn_type": "spark", "host": self.master_url, "extra": ports})

    @property
    def workers(self) -> tuple[LocalWorker, ...]:
        """All workers except those that this object has removed or killed."""
        return tuple(self._workers.values())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the guardian and the master, and wait until the master answers.

        Raises:
            LocalClusterError: Spark or Java is missing, or the master does not start.
        """
        if self._daemons.started:
            raise LocalClusterError("this cluster runs already: call stop() first, or create another cluster")
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._daemons.start()
            self._start_master()
            undo.pop_all()

    def stop(self) -> None:
        """End all processes of the cluster, including drivers and executors. Does nothing if the cluster is stopped."""
        self._daemons.stop()
        self._workers.clear()
        self._ports.clear()

    def add_worker(self, cores: int = 1, memory_mb: int = 1024) -> LocalWorker:
        """Start a worker and wait until the master reports the worker as alive.

        Args:
            cores: cores that the worker offers; the machine may have fewer.
            memory_mb: memory that the worker offers to drivers and executors, in MiB.

        Raises:
            LocalClusterError: the worker does not start.
        """
        self._worker_count += 1
        name = f"worker-{self._worker_count}"
        size = ("--cores", cores, "--memory", f"{memory_mb}M")
        folder = ("--work-dir", self.directory / "work" / name)
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            up = self._daemons.launch(
                name,
                WORKER_CLASS,
                ["--port", port, "--webui-port", 0, *size, *folder, self.master_url],
                self._all_properties(),
                partial(self._alive_worker, port),
            )
            if up is not None:
                self._workers[name] = _worker(name, *up)
                return self._workers[name]
        raise LocalClusterError(f"{name} found no free port in {PORT_ATTEMPTS} attempts")

    def remove_worker(self, worker: LocalWorker) -> None:
        """Stop a worker with its executors and drivers (SIGTERM), and wait until the master has removed the worker."""
        self._end_worker(worker, signal.SIGTERM)

    def kill_worker(self, worker: LocalWorker) -> None:
        """Kill a worker's JVM (SIGKILL) and wait until the master has removed the worker.

        The executors of the worker and the JVMs of its drivers end within a second. The Python process of a driver continues.
        """
        self._end_worker(worker, signal.SIGKILL)

    def kill_driver(self, submission_id: str, timeout_s: float = LAUNCH_TIMEOUT_S) -> None:
        """Kill the JVM and the Python process of a driver (SIGKILL).

        The name of their working directory is the submission ID of the driver.

        Args:
            submission_id: submission ID of the driver.
            timeout_s: maximum time until the first process exists, in seconds. The master reports a driver as running
                before the process exists.

        Raises:
            LocalClusterError: the driver has no process on this machine.
        """
        try:
            processes = wait_until(
                lambda: self._daemons.working_in(submission_id), timeout_s, f"a process of {submission_id!r}"
            )
        except TimeoutError as error:
            raise LocalClusterError(f"{error}: does that driver run on {self.master_url}?") from error
        guardian.kill(processes)

    def reset(self) -> None:
        """Kill every process except the master, so that the cluster has no workers, drivers or applications, as after `start`."""
        self._daemons.kill_all_but(MASTER)
        self._workers.clear()
        wait_until(
            self._is_empty,
            self._start_timeout_s,
            "the removal of all workers, drivers and applications from the master",
        )

    def state(self) -> dict[str, Any]:
        """Return the state of the master, the workers, the applications and the drivers (`/json/` of the master).

        Raises:
            LocalClusterError: the master does not answer.
        """
        url = f"{self.ui_url}/json/"
        try:
            answer = httpx.get(url, timeout=HTTP_TIMEOUT_S, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            raise LocalClusterError(f"{url}: {error}; see {self._daemons.log(MASTER)}") from error
        state: dict[str, Any] = answer.json()
        return state

    def _port(self, server: str) -> int:
        try:
            return self._ports[server]
        except KeyError:
            raise LocalClusterError("the cluster is not running: call start()") from None

    def _start_master(self) -> None:
        for _ in range(PORT_ATTEMPTS):
            self._ports = {"master": free_port(), "ui": free_port(), "rest": free_port()}
            arguments = ["--port", self._ports["master"], "--webui-port", self._ports["ui"]]
            if self._daemons.launch(MASTER, MASTER_CLASS, arguments, self._all_properties(), self._master_answers):
                return
        raise LocalClusterError(f"the master found no free ports in {PORT_ATTEMPTS} attempts")

    def _all_properties(self) -> dict[str, str]:
        return {
            "spark.port.maxRetries": "0",  # A port in use must be an error. Spark would take another port.
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": HOST,
            "spark.master.rest.port": str(self._port("rest")),
            **self._properties,
        }

    def _master_answers(self) -> bool:
        with suppress(LocalClusterError, ValueError):
            return self.state()["url"] == self.master_url and listens(self._port("rest"), HTTP_TIMEOUT_S)
        return False

    def _alive_workers(self) -> list[dict[str, Any]]:
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def _alive_worker(self, port: int) -> dict[str, Any] | None:
        return next((worker for worker in self._alive_workers() if worker["port"] == port), None)

    def _is_empty(self) -> bool:
        state = self.state()
        return not (state["aliveworkers"] or state["activedrivers"] or state["activeapps"])

    def _end_worker(self, worker: LocalWorker, how: signal.Signals) -> None:
        if self._workers.pop(worker.name, None) is None:
            raise LocalClusterError(f"{worker.name} is not a running worker of {self.master_url}")
        self._daemons.end(worker.name, how)
        wait_until(
            lambda: worker.worker_id not in {listed["id"] for listed in self._alive_workers()},
            self._start_timeout_s,
            f"the removal of {worker.worker_id} from the master",
        )


def _worker(name: str, pid: int, listed: Mapping[str, Any]) -> LocalWorker:
    return LocalWorker(
        name=name,
        worker_id=listed["id"],
        pid=pid,
        ui_url=listed["webuiaddress"],
        cores=listed["cores"],
        memory_mb=listed["memory"],
    )
