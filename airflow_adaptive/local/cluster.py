"""A real Spark standalone cluster on 127.0.0.1, from the Spark inside the pyspark wheel.

One master, with its REST submission server, and workers, each a process of its own. Ports are free ones; heaps are
small; nothing is read from the user's Spark configuration. A guardian process (`guardian.py`) ends every process of
the cluster when it is stopped and when the owner dies, by whatever cause.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from airflow_adaptive.local import guardian
from airflow_adaptive.local.distribution import find_java, find_spark
from airflow_adaptive.local.errors import LocalClusterError
from airflow_adaptive.local.waiting import wait_until

HOST = "127.0.0.1"

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"

DAEMON_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A daemon here is short-lived and does little: start quickly, take few threads and little memory."""

PORT_ATTEMPTS = 5
"""Somebody may take a free port before Spark binds it: so often is a process started with other ports."""

PORT_TAKEN = "java.net.BindException"

HTTP_TIMEOUT_S = 5.0

LOG_TAIL_CHARACTERS = 2000


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
            directory: where it keeps its files; without one a temporary directory, removed at the end.
            properties: Spark properties of the master and the workers, over ours.
            daemon_memory_mb: heap of the master and of each worker, MiB.
            start_timeout_s: how long a master or a worker may take to be up.
            stop_grace_s: how long processes may take to end by themselves before they are killed.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="airflow-adaptive-")) if directory is None else directory.resolve()
        self._temporary = directory is None
        self._properties = dict(properties or {})
        self._daemon_memory_mb = daemon_memory_mb
        self._start_timeout_s = start_timeout_s
        self._stop_grace_s = stop_grace_s
        self._mark = uuid.uuid4().hex
        self._guardian: subprocess.Popen[bytes] | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._workers: dict[str, LocalWorker] = {}
        self._worker_count = 0
        self._ports: dict[str, int] = {}
        self._command = Path()
        self._environment: dict[str, str] = {}

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
        if self._guardian is not None:
            raise LocalClusterError("this cluster was started already: stop it, or make another")
        with ExitStack() as undo:
            undo.callback(self.stop)
            self._prepare()
            self._start_master()
            undo.pop_all()

    def stop(self) -> None:
        """End all processes of the cluster, drivers and executors included; stopping again does nothing."""
        if self._guardian is None:
            return
        with suppress(BrokenPipeError):
            self._guardian.communicate()  # closing the pipe is the sign, its end the answer
        for process in self._processes.values():
            process.wait()
        self._guardian = None
        self._processes.clear()
        self._workers.clear()
        self._ports.clear()

    def add_worker(self, cores: int = 1, memory_mb: int = 1024) -> LocalWorker:
        """Start a worker and wait until the master counts it as alive.

        Args:
            cores: what it offers, real or not.
            memory_mb: what it offers to drivers and executors, MiB.

        Raises:
            LocalClusterError: it does not come up; says why.
        """
        self._worker_count += 1
        name = f"worker-{self._worker_count}"
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            process = self._spawn(
                name,
                WORKER_CLASS,
                *("--port", port, "--webui-port", 0, "--cores", cores, "--memory", f"{memory_mb}M"),
                *("--work-dir", self.directory / "work" / name, self.master_url),
            )
            listed = self._wait_for(name, process, lambda port=port: self._alive_worker(port))
            if listed is not None:
                worker = LocalWorker(
                    name=name,
                    worker_id=listed["id"],
                    pid=process.pid,
                    ui_url=listed["webuiaddress"],
                    cores=cores,
                    memory_mb=memory_mb,
                )
                self._workers[name] = worker
                return worker
        raise LocalClusterError(f"{name} found no free port in {PORT_ATTEMPTS} attempts")

    def remove_worker(self, worker: LocalWorker) -> None:
        """End a worker in order (SIGTERM): it ends its executors and drivers; wait until the master knows."""
        self._end_worker(worker, graceful=True)

    def kill_worker(self, worker: LocalWorker) -> None:
        """Kill a worker's JVM (SIGKILL), and wait until the master knows; its children find out by themselves."""
        self._end_worker(worker, graceful=False)

    def kill_driver(self, submission_id: str) -> None:
        """Kill the processes of a driver (SIGKILL): its JVM and its Python, known by their working directory.

        Raises:
            LocalClusterError: no process of that driver lives here.
        """
        processes = [process for process in guardian.marked(self._mark) if _directory_of(process).name == submission_id]
        if not processes:
            raise LocalClusterError(f"no process of driver {submission_id!r} runs on {self.master_url}")
        guardian.kill(processes)

    def state(self) -> dict[str, Any]:
        """What the master tells of itself, its workers, applications and drivers (`/json/`)."""
        with httpx.Client(trust_env=False, timeout=HTTP_TIMEOUT_S) as client:
            state: dict[str, Any] = client.get(f"{self.ui_url}/json/").raise_for_status().json()
        return state

    def _port(self, name: str) -> int:
        try:
            return self._ports[name]
        except KeyError:
            raise LocalClusterError("the cluster is not running: call start()") from None

    def _prepare(self) -> None:
        spark, java = find_spark(), find_java()
        for part in ("conf", "logs", "scratch", "work"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        self._command = spark.home / "bin" / "spark-class"
        self._environment = self._make_environment(spark.home, java)
        removed = self.directory if self._temporary else self.directory / "scratch"
        self._guardian = subprocess.Popen(
            [sys.executable, "-P", guardian.__file__, self._mark, str(self._stop_grace_s), str(removed)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def _make_environment(self, spark_home: Path, java_home: Path) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **own,
            guardian.MARK_VARIABLE: self._mark,
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(spark_home),
            "SPARK_CONF_DIR": str(self.directory / "conf"),
            "SPARK_LOCAL_DIRS": str(self.directory / "scratch"),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_HOSTNAME": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_DAEMON_MEMORY": f"{self._daemon_memory_mb}m",
            "SPARK_DAEMON_JAVA_OPTS": f"{DAEMON_JAVA_OPTIONS} -Djava.io.tmpdir={self.directory / 'scratch'}",
            "PYSPARK_PYTHON": sys.executable,
        }

    def _start_master(self) -> None:
        for _ in range(PORT_ATTEMPTS):
            self._ports = {"master": free_port(), "ui": free_port(), "rest": free_port()}
            process = self._spawn(
                "master", MASTER_CLASS, "--port", self._ports["master"], "--webui-port", self._ports["ui"]
            )
            if self._wait_for("master", process, self._master_answers):
                return
        raise LocalClusterError(f"the master found no free ports in {PORT_ATTEMPTS} attempts")

    def _spawn(self, name: str, main_class: str, *arguments: object) -> subprocess.Popen[bytes]:
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [self._command, main_class, "--host", HOST, *map(str, arguments)],
                env=self._environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes[name] = process
        return process

    def _write_properties(self) -> Path:
        """Properties of the daemons, in a file of its own: drivers must not read them, nor `ps` show them."""
        properties = {
            "spark.port.maxRetries": "0",  # a port that is taken must be an error, not another port
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": HOST,
            "spark.master.rest.port": str(self._ports["rest"]),
            **self._properties,
        }
        file = self.directory / "conf" / "daemons.properties"
        file.write_text("".join(f"{name} {value}\n" for name, value in properties.items()))
        file.chmod(0o600)
        return file

    def _wait_for(self, name: str, process: subprocess.Popen[bytes], ready: Any) -> Any:
        """The true answer of `ready`, or None if the process ended because a port was taken."""

        def up_or_ended() -> Any:
            return process.poll() is not None or ready()

        try:
            answer = wait_until(up_or_ended, self._start_timeout_s, f"start of {name}")
        except TimeoutError as error:
            raise LocalClusterError(f"{error}; {self._log(name)} ends with:\n{self._log_tail(name)}") from error
        if process.poll() is None:
            return answer
        if PORT_TAKEN in self._log(name).read_text(errors="replace"):
            return None
        raise LocalClusterError(
            f"{name} ended with exit code {process.returncode}; {self._log(name)} ends with:\n{self._log_tail(name)}"
        )

    def _master_answers(self) -> bool:
        with suppress(httpx.TransportError, httpx.HTTPStatusError, ValueError):
            return self.state()["url"] == self.master_url and _listens(self._ports["rest"])
        return False

    def _alive_worker(self, port: int) -> dict[str, Any] | None:
        return next((worker for worker in self._alive_workers() if worker["port"] == port), None)

    def _alive_workers(self) -> list[dict[str, Any]]:
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def _end_worker(self, worker: LocalWorker, *, graceful: bool) -> None:
        if self._workers.pop(worker.name, None) is None:
            raise LocalClusterError(f"{worker.name} is not a running worker of {self.master_url}")
        process = self._processes[worker.name]
        process.terminate() if graceful else process.kill()
        process.wait(self._stop_grace_s + self._start_timeout_s)
        wait_until(
            lambda: worker.worker_id not in {listed["id"] for listed in self._alive_workers()},
            self._start_timeout_s,
            f"the master's notice of the end of {worker.worker_id}",
        )

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _log_tail(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), HTTP_TIMEOUT_S):
        return True
    return False


def _directory_of(process: psutil.Process) -> Path:
    with suppress(psutil.Error):
        return Path(process.cwd())
    return Path()
