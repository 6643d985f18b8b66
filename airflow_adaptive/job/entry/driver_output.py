"""Keeps the files small that a driver's output goes to.

A worker appends what a driver writes to `stdout` and `stderr` in the driver's directory, for ever: it rolls the files of
executors only (`spark.executor.logs.rolling.*`; `org.apache.spark.deploy.worker.CommandUtils.redirectStream`). Since it
appends, the driver may cut its own files from below, as `logrotate` does with `copytruncate`. A worker's log page shows files
whose names begin alike as one log (`org.apache.spark.util.logging.RollingFileAppender.getSortedRolledOverFiles`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

NAMES: Final = ("stdout", "stderr")

ROTATED_SUFFIX: Final = ".old"
"""Ending of the file that has what was written before."""

MAX_BYTES: Final = 16 << 20
"""Of each file; what a driver leaves on its worker is four times as much at most."""

CHECK_INTERVAL_S: Final = 10.0
"""Between two looks at the sizes."""


class DriverOutput:
    """The files of one driver."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Callable[[], float],
        warn: Callable[[str], None],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            directory: of the driver, on its worker.
            clock: monotonic, seconds.
            warn: told once if that is not possible.
            max_bytes: of each file; it is cut when it has grown beyond.
        """
        self._files = [directory / name for name in NAMES]
        self._clock = clock
        self._warn = warn
        self._max_bytes = max_bytes
        self._checked_at: float | None = None
        self._warned = False

    def truncate_if_due(self) -> None:
        """Cut what has grown too large, if it is time to look again; what is written at that very moment may be lost."""
        if self._checked_at is not None and self._clock() - self._checked_at < CHECK_INTERVAL_S:
            return
        self._checked_at = self._clock()
        try:
            for file in self._files:
                if file.is_file() and file.stat().st_size > self._max_bytes:
                    _rotate(file)
        except OSError as error:
            if not self._warned:
                self._warn(f"the driver's output can't be cut, or not be kept: {error}")
            self._warned = True


def _rotate(file: Path) -> None:
    """Begin anew, keep what there was as the old file; on a full disk only begin anew."""
    try:
        shutil.copyfile(file, file.with_name(file.name + ROTATED_SUFFIX))
    finally:
        os.truncate(file, 0)
