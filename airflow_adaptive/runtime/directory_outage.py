"""Tolerance of a loop for an unusable job directory."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_adaptive.ports import ForeignDirectoryError, JobDirectoryError
from airflow_adaptive.runtime.once_logger import OnceLogger


class DirectoryOutage:
    """Measures for how long the job directory cannot be used.

    The loop tolerates an outage for a while. The driver tolerates the outage as well, until its lease expires.
    """

    def __init__(self, timeout: timedelta, reports: OnceLogger) -> None:
        """There is no outage yet.

        Args:
            timeout: longest outage that the loop tolerates.
            reports: logs the reason of an outage.
        """
        self._timeout = timeout
        self._reports = reports
        self._since: datetime | None = None

    @property
    def is_ongoing(self) -> bool:
        """Whether the newest cycle could not use the job directory."""
        return self._since is not None

    def tolerate(self, error: JobDirectoryError, now: datetime) -> None:
        """Begin or continue an outage. Raises the error if the outage lasts too long, or if waiting cannot end it."""
        self._since = self._since or now
        if isinstance(error, ForeignDirectoryError) or now - self._since > self._timeout:
            raise error
        self._reports.report(str(error))

    def end(self) -> None:
        """The job directory can be used."""
        self._since = None
