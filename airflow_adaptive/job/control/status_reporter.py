"""Writes the driver status: a change immediately, and a heartbeat if nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from airflow_adaptive._core.protocol.codec import DocumentError, decode_status, encode_status
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.python_version import UTC
from airflow_adaptive.job.control.interfaces import DirectoryError


class StatusFile(Protocol):
    """The file of the driver status."""

    def read_status(self) -> bytes | None:
        """Return the status, of any driver. Raises `DirectoryError`."""
        ...

    def write_status(self, data: bytes) -> None:
        """Replace the status. Raises `DirectoryError`."""
        ...


class FileStatusReporter:
    """Writes the status of one driver to the job directory."""

    def __init__(
        self,
        file: StatusFile,
        *,
        heartbeat_interval_s: float,
        clock: Callable[[], float],
        warn: Callable[[str], None],
    ) -> None:
        """Create a reporter; it writes nothing yet.

        Args:
            file: file of the status.
            heartbeat_interval_s: maximum interval between two statuses, in seconds.
            clock: monotonic clock, in seconds.
            warn: called when a write fails, and again only after a successful write.
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
        """Write the status if it has changed or a heartbeat is due. A failure is not an error; see `warn`.

        Args:
            status: status of the driver; the reporter sets its `sequence` and `at`.

        Returns:
            Whether the status was written.
        """
        if status != self._written or self._clock() - self._written_at >= self._heartbeat_interval_s:
            return self._write(status)
        return False

    def report_fenced(self, status: DriverStatus) -> None:
        """Write the last status of a fenced driver, unless its successor has already written a status."""
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
                self._warn(f"status not written, will retry: {error}")
            self._failing = True
            return False
        self._failing = False
        self._written = status
        self._written_at = self._clock()
        return True
