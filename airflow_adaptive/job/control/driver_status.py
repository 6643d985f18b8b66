"""The driver status: what the driver loop sets and measures, what the workload and the executors report, and its file.

A change is written immediately, and a heartbeat if nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from airflow_adaptive._core.protocol.documents import (
    DocumentError,
    DriverState,
    DriverStatus,
    FailureReport,
    decode_document,
    encode_document,
)
from airflow_adaptive._core.python_version import UTC
from airflow_adaptive.job.control.interfaces import DirectoryError, DriverInterfaces, StatusFile, StatusReporter


class CurrentStatus:
    """The status that the driver would write now.

    Attributes:
        fields: identity of the driver, and the fields that the driver loop sets.
    """

    def __init__(self, identity: DriverStatus, interfaces: DriverInterfaces, downtime: Downtime) -> None:
        self.fields = identity
        self._workload = interfaces.workload
        self._executors = interfaces.executors
        self._downtime = downtime

    def set(self, state: DriverState, version: int | None = None, failure: FailureReport | None = None) -> DriverState:
        """Set the state and the failure. Without a version, the active one remains."""
        version = self.fields.version if version is None else version
        self.fields = replace(self.fields, state=state, version=version, failure=failure)
        return state

    def set_moving(self) -> None:
        """Report that others end this driver."""
        self.fields = replace(self.fields, is_moving=True)

    def set_in_progress(self) -> None:
        """Set the state in which a plan is deployed."""
        self.set(DriverState.RESCALING if self.fields.version else DriverState.STARTING)

    def set_rejection(self, version: int, rejection: FailureReport | None) -> None:
        """Set the version of a rejected plan and the reason, or 0 and None."""
        self.fields = replace(self.fields, rejected_version=version, rejection=rejection)

    def document(self) -> DriverStatus:
        """Return the status to write."""
        queries = self._workload.running.reports()  # first: the progress determines the parallelism
        return replace(
            self.fields,
            parallelism=self._workload.running.parallelism(),
            executors=self._executors.registered(),
            load=self._executors.load(),
            queries=queries,
            vertices_read=self._workload.vertices_read,
            downtime_ms=self._downtime.ms,
            gangs=self._workload.gangs,
            decommission=self._executors.decommission(),
        )


class Downtime:
    """The downtime of the last rescale.

    Attributes:
        ms: downtime in milliseconds; None before the first rescale, during a measurement, and after a failure or HOLD.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self.ms: int | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether a measurement has begun and not ended."""
        return self._since is not None

    def begin(self) -> None:
        """Begin the measurement: the old query has ended."""
        self._since, self.ms = self._clock(), None

    def end(self) -> None:
        """End a measurement that has begun: the first trigger of the new query has begun."""
        if self._since is not None:
            self.ms = round((self._clock() - self._since) * 1000)
        self._since = None

    def record(self, seconds: float) -> None:
        """Record the downtime of a rescale that blocked all queries without ending them, unless a measurement runs."""
        if self._since is None:
            self.ms = round(seconds * 1000)

    def abandon(self) -> None:
        """Abandon the measurement: no new query starts, and a later start is not part of the rescale."""
        self._since = self.ms = None


class FileStatusReporter(StatusReporter):
    """Writes the status of one driver to the job directory, and sets its `sequence` and `at`.

    A write that fails is not an error: `warn` is called, and again only after a successful write.
    """

    def __init__(
        self, file: StatusFile, *, heartbeat_interval_s: float, clock: Callable[[], float], warn: Callable[[str], None]
    ) -> None:
        self._file = file
        self._heartbeat_interval_s = heartbeat_interval_s
        self._clock = clock
        self._warn = warn
        self._failing = False
        self._sequence = 0
        self._written: DriverStatus | None = None
        self._written_at = 0.0

    def report(self, status: DriverStatus) -> bool:
        if status != self._written or self._clock() - self._written_at >= self._heartbeat_interval_s:
            return self._write(status)
        return False

    def report_fenced(self, status: DriverStatus) -> None:
        try:
            data = self._file.read_status()
            current = None if data is None else decode_document(DriverStatus, data)
        except (DirectoryError, DocumentError):
            return
        if current is None or (current.epoch, current.nonce) == (status.epoch, status.nonce):
            self._write(replace(status, state=DriverState.FENCED))

    def _write(self, status: DriverStatus) -> bool:
        self._sequence += 1
        try:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._file.write_status(encode_document(replace(status, sequence=self._sequence, at=at)))
        except DirectoryError as error:
            if not self._failing:
                self._warn(f"status not written, will retry: {error}")
            self._failing = True
            return False
        self._failing = False
        self._written = status
        self._written_at = self._clock()
        return True
