"""Starts and stops the guardian process from the process that owns a cluster or an Airflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from airflow_adaptive.local import guardian


class Guard:
    """Ensures that no process with a mark outlives its owner (see `guardian`)."""

    def __init__(self, mark: str, grace_s: float, *removed: Path) -> None:
        """Start the guardian.

        Args:
            mark: value of `guardian.MARK_VARIABLE` in the environment of the guarded processes.
            grace_s: time for the processes to end by themselves before they are killed, in seconds.
            removed: directories that the guardian deletes after the end of the processes.
        """
        self._mark = mark
        self._grace_s = grace_s
        self._process = subprocess.Popen(
            [sys.executable, "-P", guardian.__file__, mark, str(grace_s), *map(str, removed)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        """End all processes with the mark and the guardian, even if the guardian was killed."""
        with suppress(BrokenPipeError):
            self._process.communicate()  # Closes the pipe and waits for the end of the guardian.
        if self._process.returncode:
            guardian.end(self._mark, self._grace_s)


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
