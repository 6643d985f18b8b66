"""The owner's side of the guardian: started before the first process, and asked to end them all."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from airflow_adaptive.local import guardian


class Guard:
    """Sees to it that no process with a mark outlives its owner; see `guardian`."""

    def __init__(self, mark: str, grace_s: float, *removed: Path) -> None:
        """Start the guardian.

        Args:
            mark: value of `guardian.MARK_VARIABLE` in the environment of the guarded processes.
            grace_s: how long they may take to end by themselves before they are killed.
            removed: directories that go with them.
        """
        self._mark = mark
        self._grace_s = grace_s
        self._process = subprocess.Popen(
            [sys.executable, "-P", guardian.__file__, mark, str(grace_s), *map(str, removed)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        """End all processes with the mark, and the guardian; also if somebody killed the guardian."""
        with suppress(BrokenPipeError):
            self._process.communicate()  # closing the pipe is the sign, its end the answer
        if self._process.returncode:
            guardian.end(self._mark, self._grace_s)
