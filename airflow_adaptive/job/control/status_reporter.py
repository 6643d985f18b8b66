"""Writes the driver's status: what changed at once, and a heartbeat if nothing does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from airflow_adaptive.job.control.interfaces import DirectoryError
from airflow_adaptive.job.protocol.codec import DocumentError, decode_status, encode_status
from airflow_adaptive.job.protocol.documents import DriverState, DriverStatus


class StatusFile(Protocol):
    """Where the status is kept."""

    def read_status(self) -> bytes | None:
        """The status, whoever wrote it. Raises `DirectoryError`."""
        ...

    def write_status(self, data: bytes) -> None:
        """Replace it. Raises `DirectoryError`."""
        ...


class FileStatusReporter:
    """Writes the status of one driver."""

    def __init__(
        self,
        file: StatusFile,
        *,
        heartbeat_interval_s: float,
        clock: Callable[[], float],
        warn: Callable[[str], None],
    ) -> None:
        """Nothing is written yet.

        Args:
            file: where to.
            heartbeat_interval_s: the status is written at least so often.
            clock: monotonic, seconds.
            warn: told when the status can't be written, once until it can again.
        """
        self._file = file
        self._heartbeat_interval_s = heartbeat_interval_s
        self._clock = clock
        self._warn = warn
        self._failing = False
        self._sequence = 0
        self._written: DriverStatus | None = None
        self._written_at = 0.0

    def report(self, status: DriverStatus) -> bool:
        """Write the status if it says something new, or if a heartbeat is due. A failure is no error: see `warn`.

        Args:
            status: its `sequence` and `at` are set here.

        Returns:
            Whether it was written.
        """
        if status != self._written or self._clock() - self._written_at >= self._heartbeat_interval_s:
            return self._write(status)
        return False

    def report_fenced(self, status: DriverStatus) -> None:
        """Write the last status of a fenced driver, unless its successor writes there already."""
        try:
            data = self._file.read_status()
            current = None if data is None else decode_status(data)
        except (DirectoryError, DocumentError):
            return
        if current is None or (current.epoch, current.nonce) == (status.epoch, status.nonce):
            self._write(replace(status, state=DriverState.FENCED))

    def _write(self, status: DriverStatus) -> bool:
        self._sequence += 1
        try:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._file.write_status(encode_status(replace(status, sequence=self._sequence, at=at)))
        except DirectoryError as error:
            if not self._failing:
                self._warn(f"status not written, trying on: {error}")
            self._failing = True
            return False
        self._failing = False
        self._written = status
        self._written_at = self._clock()
        return True
