"""A small process that outlives the owner of a cluster and ends every process that the cluster has left behind.

Every process of a cluster inherits a *mark*, which is an environment variable. The master, the workers, and the drivers, executors
and Python processes that the workers start have the mark, even if their parent process was killed. The guardian waits until the
owner closes the pipe to the guardian or dies for any reason. The guardian then ends every process with the mark and deletes the
directories that its command line names.

The guardian runs as a script by its path, so that it needs only the standard library and psutil:
`guardian.py MARK GRACE_SECONDS DIRECTORY...`
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

MARK_VARIABLE = "AIRFLOW_ADAPTIVE_LOCAL_CLUSTER"

OWNER_CHECK_S = 1.0
"""Interval between checks of the owner. A fork of the owner may keep the pipe open after the owner's death."""

CHECK_S = 0.1

KILL_TIMEOUT_S = 10.0
"""Maximum time for killed processes to end. Only a process in uninterruptible sleep needs more time."""


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes with the mark. A zombie process has no mark."""
    return [process for process in psutil.process_iter() if _mark_of(process) == mark]


def end(mark: str, grace_s: float) -> None:
    """End all processes with the mark. SIGTERM lets JVMs delete their temporary files; SIGKILL follows after the grace period."""
    for process in marked(mark):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    if not _gone(mark, grace_s):
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while not _gone(mark, CHECK_S) and time.monotonic() < deadline:
            kill(marked(mark))


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each process that is still alive."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def wait_for_owner(owner: int) -> None:
    """Return when the owner has closed the pipe on standard input or is no longer the parent process."""
    while os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin], [], [], OWNER_CHECK_S)
        if readable:
            return


def main(arguments: Sequence[str]) -> None:
    """Guard one cluster until the end of its owner."""
    owner = os.getppid()
    mark, grace_s, *directories = arguments
    wait_for_owner(owner)
    end(mark, float(grace_s))
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _gone(mark: str, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while marked(mark):
        if time.monotonic() >= deadline:
            return False
        time.sleep(CHECK_S)
    return True


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK_VARIABLE)
    except (psutil.Error, OSError):
        return None  # The process belongs to another user or has ended.


class Guard:
    """Ensures that no process with a mark outlives its owner."""

    def __init__(self, mark: str, grace_s: float, *removed: Path) -> None:
        """Start the guardian.

        Args:
            mark: value of `MARK_VARIABLE` in the environment of the guarded processes.
            grace_s: time for the processes to end by themselves before they are killed, in seconds.
            removed: directories that the guardian deletes after the end of the processes.
        """
        self._mark = mark
        self._grace_s = grace_s
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, mark, str(grace_s), *map(str, removed)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        """End all processes with the mark and the guardian, even if the guardian was killed."""
        with suppress(BrokenPipeError):
            self._process.communicate()  # Closes the pipe and waits for the end of the guardian.
        if self._process.returncode:
            end(self._mark, self._grace_s)


def spawn(
    command: Sequence[str], log: IO[bytes], environment: Mapping[str, str], directory: Path
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own. The process writes its output and its errors to the log."""
    return subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
