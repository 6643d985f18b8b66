"""Limits the size of the files to which a driver's output goes.

A worker appends the output of a driver to `stdout` and `stderr` in the driver's directory without a limit: it rotates
the files of executors only (`spark.executor.logs.rolling.*`;
`org.apache.spark.deploy.worker.CommandUtils.redirectStream`). Because the worker appends, the driver may truncate its
own files, as `logrotate` does with `copytruncate`. A worker's log page presents files with the same prefix as one log
(`org.apache.spark.util.logging.RollingFileAppender.getSortedRolledOverFiles`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

NAMES: Final = ("stdout", "stderr")

ROTATED_SUFFIX: Final = ".old"
"""Suffix of the file that contains the output before the last truncation."""

MAX_BYTES: Final = 16 << 20
"""Maximum size of each file. A driver leaves at most four times this size on its worker."""

CHECK_INTERVAL_S: Final = 10.0
"""Interval between checks of the sizes, in seconds."""


class DriverOutput:
    """The output files of one driver."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Callable[[], float],
        warn: Callable[[str], None],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Refer to the files; nothing is checked yet.

        Args:
            directory: directory of the driver on its worker.
            clock: monotonic clock, in seconds.
            warn: called once if a truncation fails.
            max_bytes: maximum size of each file; a larger file is truncated.
        """
        self._files = [directory / name for name in NAMES]
        self._clock = clock
        self._warn = warn
        self._max_bytes = max_bytes
        self._checked_at: float | None = None
        self._warned = False

    def truncate_if_due(self) -> None:
        """Truncate files that are too large, if a check is due.

        Output that is written during the truncation may be lost.
        """
        if self._checked_at is not None and self._clock() - self._checked_at < CHECK_INTERVAL_S:
            return
        self._checked_at = self._clock()
        try:
            for file in self._files:
                if file.is_file() and file.stat().st_size > self._max_bytes:
                    _rotate(file)
        except OSError as error:
            if not self._warned:
                self._warn(f"cannot truncate the driver's output, or cannot keep a copy: {error}")
            self._warned = True


def _rotate(file: Path) -> None:
    """Truncate the file after copying it; on a full disk only truncate it."""
    try:
        shutil.copyfile(file, file.with_name(file.name + ROTATED_SUFFIX))
    finally:
        os.truncate(file, 0)
