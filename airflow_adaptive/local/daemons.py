"""Starts, observes and ends the processes of an embedded cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil

from airflow_adaptive.local import guardian
from airflow_adaptive.local.distribution import find_java, find_spark
from airflow_adaptive.local.guardian import Guard, spawn
from airflow_adaptive.local.waiting import LocalClusterError, wait_until

HOST = "127.0.0.1"

STOP_GRACE_S = 5.0
"""Time for processes to end by themselves before they are killed."""

JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The daemons are short-lived and do little work, so they start quickly and use few threads and little memory."""

PORT_TAKEN = "java.net.BindException"

LOG_TAIL_LINES = 12

Found = TypeVar("Found")


class Daemons:
    """Starts Spark's daemons, and ends the daemons and all their child processes.

    Attributes:
        directory: directory with `logs/`, `work/`, `conf/` and `scratch/` of the daemons and their child processes.
    """

    def __init__(self, directory: Path, *, removed: Path, memory_mb: int, start_timeout_s: float) -> None:
        """Describe the daemons without starting a process.

        Args:
            directory: directory of all files.
            removed: directory that is deleted at the end.
            memory_mb: heap of each daemon, in MiB.
            start_timeout_s: maximum time until a daemon is ready, in seconds.
        """
        self.directory = directory
        self._removed = removed
        self._memory_mb = memory_mb
        self._start_timeout_s = start_timeout_s
        self._mark = uuid.uuid4().hex
        self._guard: Guard | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._command = Path()
        self._environment: dict[str, str] = {}

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not called afterwards."""
        return self._guard is not None

    def start(self) -> None:
        """Create the directory and start the guardian.

        Raises:
            LocalClusterError: Spark or Java is missing.
        """
        spark, java = find_spark(), find_java()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in ("conf", "logs", "scratch", "work"):
            (self.directory / part).mkdir(exist_ok=True)
        self._command = spark.home / "bin" / "spark-class"
        self._environment = self._make_environment(spark.home, java)
        self._guard = Guard(self._mark, STOP_GRACE_S, self._removed)

    def stop(self) -> None:
        """End all processes. Does nothing if the daemons are stopped."""
        if self._guard is None:
            return
        self._guard.end()
        for process in self._processes.values():
            process.wait()
        self._guard = None
        self._processes.clear()

    def launch(
        self,
        name: str,
        main_class: str,
        arguments: Sequence[object],
        properties: Mapping[str, str],
        ready: Callable[[], Found | None],
    ) -> tuple[int, Found] | None:
        """Start a daemon and wait until the daemon is ready.

        Returns:
            The process ID and the true result of `ready`, or None if another process uses one of the daemon's ports. A
            master would continue without the server of that port.

        Raises:
            LocalClusterError: the daemon ended or is not ready in time. The message contains the end of the daemon's log.
        """
        process = self._spawn(name, main_class, arguments, properties)

        def decided() -> tuple[Found | None] | None:
            answer = ready()
            return (answer,) if answer or self._port_was_taken(name) or process.poll() is not None else None

        try:
            (answer,) = wait_until(decided, self._start_timeout_s, f"start of {name}")
        except TimeoutError as error:
            raise LocalClusterError(f"{error}: {self._log_tail(name)}") from error
        if answer:
            return process.pid, answer
        if self._port_was_taken(name):
            self.end(name, signal.SIGKILL)
            return None
        raise LocalClusterError(f"{name} ended with exit code {process.returncode}: {self._log_tail(name)}")

    def end(self, name: str, how: signal.Signals) -> None:
        """Send a signal to a daemon and wait for the end of the daemon. Its child processes receive no signal."""
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(self._start_timeout_s)

    def kill_all_but(self, name: str) -> None:
        """Kill every process except one daemon."""
        spared = self._processes[name]
        guardian.kill(process for process in guardian.marked(self._mark) if process.pid != spared.pid)
        for killed in self._processes.keys() - {name}:
            self._processes.pop(killed).wait()

    def working_in(self, directory: str) -> list[psutil.Process]:
        """Return the processes whose working directory has this name. The name of a driver's directory is its submission ID."""
        return [process for process in guardian.marked(self._mark) if _directory_of(process).name == directory]

    def log(self, name: str) -> Path:
        """Return the path of a daemon's log."""
        return self.directory / "logs" / f"{name}.log"

    def _make_environment(self, spark_home: Path, java_home: Path) -> dict[str, str]:
        """Return an environment without the user's Spark settings, with local addresses and one directory for temporary files."""
        scratch = str(self.directory / "scratch")
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **own,
            guardian.MARK_VARIABLE: self._mark,
            "JAVA_HOME": str(java_home),
            "JDK_JAVA_OPTIONS": f'{own.get("JDK_JAVA_OPTIONS", "")} -XX:-UsePerfData "-Djava.io.tmpdir={scratch}"'.lstrip(),
            "TMPDIR": scratch,
            "SPARK_HOME": str(spark_home),
            "SPARK_CONF_DIR": str(self.directory / "conf"),
            "SPARK_LOCAL_DIRS": scratch,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_HOSTNAME": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_DAEMON_MEMORY": f"{self._memory_mb}m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
        }

    def _spawn(
        self, name: str, main_class: str, arguments: Sequence[object], properties: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        file = self._write_properties(name, properties)
        command = [str(self._command), main_class, "--host", HOST, "--properties-file", str(file), *map(str, arguments)]
        with self.log(name).open("wb") as log:
            self._processes[name] = spawn(command, log, self._environment, self.directory)
        return self._processes[name]

    def _write_properties(self, name: str, properties: Mapping[str, str]) -> Path:
        """Write a private file, because drivers must not read the daemon's properties and `ps` must not list them."""
        file = self.directory / "conf" / f"{name}.properties"
        file.touch(mode=0o600)
        file.write_text("".join(f"{key} {value}\n" for key, value in properties.items()))
        return file

    def _port_was_taken(self, name: str) -> bool:
        return PORT_TAKEN in self.log(name).read_text(errors="replace")

    def _log_tail(self, name: str) -> str:
        """Return the end of a log without the frames of stack traces."""
        log = self.log(name)
        lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("\tat ")]
        return "\n".join([f"{log} ends with:", *lines[-LOG_TAIL_LINES:]])


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that no process listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listens(port: int, timeout_s: float) -> bool:
    """Return whether a process accepts connections on a TCP port of 127.0.0.1."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout_s):
        return True
    return False


def _directory_of(process: psutil.Process) -> Path:
    with suppress(psutil.Error):
        return Path(process.cwd())
    return Path()
