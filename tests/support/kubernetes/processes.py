"""The processes of a test cluster: start, kill, freeze. Each process inherits the folder of its owner in an environment variable."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from airflow_adaptive.local.waiting import wait_until
from tests.support.kubernetes.requirements import SYSTEM_PATH

FOLDER_VARIABLE: Final = "AIRFLOW_ADAPTIVE_TEST_CLUSTER"

START_TIMEOUT_S: Final = 240.0

LOG_TAIL_LINES: Final = 15

_started: list[subprocess.Popen[bytes]] = []


class ClusterProcess:
    """A server of the cluster. It can be killed and started again, and its log continues."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ready: Callable[[], bool]) -> None:
        """Start the server and wait until it is ready.

        Raises:
            RuntimeError: the server ended, or was not ready in time. The message contains the end of its log.
        """
        environment = {**os.environ, "PATH": SYSTEM_PATH, FOLDER_VARIABLE: str(self._folder)}
        with self.log.open("ab") as log:
            self._process = process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        _started.append(process)
        try:
            wait_until(lambda: ready() or process.poll() is not None, START_TIMEOUT_S, f"start of {self.name}")
        except TimeoutError as error:
            raise RuntimeError(f"{error}: {self.log_tail()}") from error
        if process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with exit code {process.returncode}: {self.log_tail()}")

    def kill(self) -> None:
        """Kill the server. Processes that it started continue."""
        self._running().kill()
        self._running().wait(START_TIMEOUT_S)

    def freeze(self) -> None:
        """Stop the server's execution: it keeps its connections and does not answer."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue after `freeze`."""
        self._running().send_signal(signal.SIGCONT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the server for the duration of the block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @contextmanager
    def slowed(self, *, frozen_s: float, running_s: float) -> Iterator[None]:
        """Alternate between frozen and running for the duration of the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._alternate, args=(ended, frozen_s, running_s))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def log_tail(self) -> str:
        """Return the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"{self.log} ends with:", *lines[-LOG_TAIL_LINES:]])

    def _alternate(self, ended: threading.Event, frozen_s: float, running_s: float) -> None:
        while not ended.wait(running_s):
            with self.frozen():
                ended.wait(frozen_s)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the living processes that inherited this folder or a folder inside. A zombie process has no environment."""
    return [process for process in psutil.process_iter() if _belongs_to(process, folder)]


def kill_all(processes: Sequence[psutil.Process]) -> None:
    """Send SIGKILL to each process that is still alive. A frozen process ends too."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def reap() -> None:
    """Collect the exit codes of the servers that ended, because they are child processes of this process."""
    _started[:] = [process for process in _started if process.poll() is None]


def _belongs_to(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.environ().get(FOLDER_VARIABLE, os.devnull)).is_relative_to(folder)
    except (psutil.Error, OSError):
        return False  # The process belongs to another user or has ended.
