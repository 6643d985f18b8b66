"""A real Spark standalone cluster on 127.0.0.1, from the Spark inside the pyspark wheel.

One master, with its REST submission server, and workers, each a process of its own. Ports are free ones; heaps are
small; nothing is read from the user's Spark configuration. A guardian process (`guardian.py`) ends every process of
the cluster when it is stopped and when the owner dies, by whatever cause.
"""

from __future__ import annotations

import signal
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from airflow_adaptive.local import guardian
from airflow_adaptive.local.daemons import HOST, Daemons, free_port, listens
from airflow_adaptive.local.errors import LocalClusterError
from airflow_adaptive.local.waiting import wait_until

__all__ = ["HOST", "LocalCluster", "LocalWorker", "free_port"]

MASTER = "master"
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"

PORT_ATTEMPTS = 3
"""Somebody may take a free port before Spark binds it: so often is a daemon started, with other ports."""

HTTP_TIMEOUT_S = 5.0

LAUNCH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWorker:
    """A worker of a `LocalCluster`.

    Attributes:
        name: "worker-1" and so on; names its log and its directory.
        worker_id: the master's id of it.
        pid: of its JVM.
        ui_url: its web UI; executors on it report this address.
        cores: what it offers.
        memory_mb: what it offers to drivers and executors, MiB.
    """

    name: str
    worker_id: str
    pid: int
    ui_url: str
    cores: int
    memory_mb: int


class LocalCluster:
    """Starts, changes and stops a Spark standalone cluster; a context manager.

    Attributes:
        directory: `logs/` of master and workers, `work/` with the drivers' and executors' output, `scratch/`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        daemon_memory_mb: int = 128,
        start_timeout_s: float = 60.0,
        stop_grace_s: float = 5.0,
    ) -> None:
        """Describe a cluster; `start` starts it.

        Args:
            directory: where it keeps its files, of which `scratch/` goes in the end; without one a temporary
                directory, which goes as a whole.
            properties: Spark properties of the master and the workers, over ours.
            daemon_memory_mb: heap of the master and of each worker, MiB.
            start_timeout_s: how long a master or a worker may take to be up, and a change to be noticed.
            stop_grace_s: how long processes may take to end by themselves before they are killed.
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
            stop_grace_s=stop_grace_s,
        )
        self._workers: dict[str, LocalWorker] = {}
        self._worker_count = 0
        self._ports: dict[str, int] = {}

    @property
    def master_url(self) -> str:
        """`spark://host:port` for applications and workers."""
        return f"spark://{HOST}:{self._port('master')}"

    @property
    def rest_url(self) -> str:
        """The REST submission server of the master."""
        return f"http://{HOST}:{self._port('rest')}"

    @property
    def ui_url(self) -> str:
        """The web UI of the master."""
        return f"http://{HOST}:{self._port('ui')}"

    @property
    def workers(self) -> tuple[LocalWorker, ...]:
        """The workers that were added and neither removed nor killed through this object."""
        return tuple(self._workers.values())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the guardian and the master, and wait until the master answers.

        Raises:
            LocalClusterError: Spark or Java is missing, or the master does not come up; says why.
        """
        if self._daemons.started:
            raise LocalClusterError("this cluster was started already: stop it, or make another")
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._daemons.start()
            self._start_master()
            undo.pop_all()

    def stop(self) -> None:
        """End all processes of the cluster, drivers and executors included; stopping again does nothing."""
        self._daemons.stop()
        self._workers.clear()
        self._ports.clear()

    def add_worker(self, cores: int = 1, memory_mb: int = 1024) -> LocalWorker:
        """Start a worker and wait until the master counts it as alive.

        Args:
            cores: what it offers, whether the machine has them or not.
            memory_mb: what it offers to drivers and executors, MiB.

        Raises:
            LocalClusterError: it does not come up; says why.
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
        """End a worker in order (SIGTERM): it ends its executors and drivers; wait until the master knows."""
        self._end_worker(worker, signal.SIGTERM)

    def kill_worker(self, worker: LocalWorker) -> None:
        """Kill a worker's JVM (SIGKILL) and wait until the master knows.

        Its executors and the JVMs of its drivers notice and end within a second; a driver's Python process does not.
        """
        self._end_worker(worker, signal.SIGKILL)

    def kill_driver(self, submission_id: str, timeout_s: float = LAUNCH_TIMEOUT_S) -> None:
        """Kill the processes of a driver (SIGKILL), its JVM and its Python; their working directory names the driver.

        Args:
            submission_id: of the driver.
            timeout_s: how long to wait for its first process, which appears a little after the driver counts as running.

        Raises:
            LocalClusterError: no process of that driver lives here.
        """
        try:
            processes = wait_until(
                lambda: self._daemons.working_in(submission_id), timeout_s, f"a process of {submission_id!r}"
            )
        except TimeoutError as error:
            raise LocalClusterError(f"{error}: does that driver run on {self.master_url}?") from error
        guardian.kill(processes)

    def reset(self) -> None:
        """Kill all but the master: afterwards there are no workers, drivers and applications, as after `start`."""
        self._daemons.kill_all_but(MASTER)
        self._workers.clear()
        wait_until(self._is_empty, self._start_timeout_s, "the master's notice that all is gone")

    def state(self) -> dict[str, Any]:
        """What the master tells of itself, its workers, applications and drivers (`/json/`).

        Raises:
            LocalClusterError: it does not answer.
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
            "spark.port.maxRetries": "0",  # a port that is taken must be an error, not another port
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
            f"the master's notice of the end of {worker.worker_id}",
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
