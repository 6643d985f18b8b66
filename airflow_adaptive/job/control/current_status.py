"""The current driver status: what the driver loop sets and measures, and what the workload and the executors report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, FailureReport
from airflow_adaptive.job.control.interfaces import DriverInterfaces


class CurrentStatus:
    """The status that the driver would write now.

    Attributes:
        fields: identity of the driver, and the fields that the driver loop sets.
    """

    def __init__(self, identity: DriverStatus, interfaces: DriverInterfaces, downtime: Downtime) -> None:
        """Create the status of a driver that has executed no directive.

        Args:
            identity: fields that all statuses of this driver share.
            interfaces: components that report their part of the status.
            downtime: downtime of the last rescale.
        """
        self.fields = identity
        self._workload = interfaces.workload
        self._executors = interfaces.executors
        self._downtime = downtime

    def set(self, state: DriverState, version: int | None = None, failure: FailureReport | None = None) -> DriverState:
        """Set the state and the failure. Without a version, the active one remains."""
        version = self.fields.version if version is None else version
        self.fields = replace(self.fields, state=state, version=version, failure=failure)
        return state

    def set_in_progress(self) -> None:
        """Set the state in which a plan is deployed."""
        self.set(DriverState.RESCALING if self.fields.version else DriverState.STARTING)

    def set_rejection(self, version: int, rejection: FailureReport | None) -> None:
        """Set the version of a rejected plan and the reason, or 0 and None."""
        self.fields = replace(self.fields, rejected_version=version, rejection=rejection)

    def document(self) -> DriverStatus:
        """Return the status to write."""
        queries = self._workload.reports()  # first: the progress determines the parallelism
        return replace(
            self.fields,
            parallelism=self._workload.parallelism(),
            executors=self._executors.registered(),
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
        """Create a measurement that has not begun; `clock` is monotonic and returns seconds."""
        self._clock = clock
        self._since: float | None = None
        self.ms: int | None = None

    @property
    def is_measuring(self) -> bool:
        """Whether a measurement has begun and not ended."""
        return self._since is not None

    def begin(self) -> None:
        """Begin the measurement: the old query has ended."""
        self._since = self._clock()
        self.ms = None

    def end(self) -> None:
        """End the measurement: the first trigger of the new query has begun."""
        if self._since is not None:
            self.ms = round((self._clock() - self._since) * 1000)
        self._since = None

    def record(self, seconds: float) -> None:
        """Record the downtime of a rescale that blocked all queries without ending them.

        Does not affect a running measurement.
        """
        if self._since is None:
            self.ms = round(seconds * 1000)

    def abandon(self) -> None:
        """Abandon the measurement: no new query starts, and a later start is not part of the rescale."""
        self._since = self.ms = None
