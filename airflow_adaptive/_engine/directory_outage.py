"""Tolerance of a loop for an unusable job directory, and for an Airflow that does not answer before the loop may claim the job."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.ports import ForeignDirectoryError, JobDirectoryError, StoreUnavailableError
from airflow_adaptive._core.scheduler.config.parsing import format_duration
from airflow_adaptive._engine.once_logger import OnceLogger

log = logging.getLogger(__name__)

MAX_RETRY_INTERVAL = timedelta(seconds=10)
"""Longest interval between two attempts to use the job directory, unless the poll interval is longer."""

MAX_QUESTION_INTERVAL = timedelta(seconds=30)
"""Longest interval between two questions to Airflow whether the loop may take the job over, unless the poll interval is longer."""

MIN_FAILURES = 2
"""Number of cycles that fail in sequence before the loop reports an outage: a single failed call is no outage."""


class DirectoryOutage:
    """Measures for how long the job directory cannot be used.

    The loop changes nothing during an outage, because it could not persist a step. The driver reads the job directory itself, and
    continues as long as it can.
    """

    def __init__(self, timeout: timedelta | None) -> None:
        self._timeout = timeout
        self._since: datetime | None = None
        self._failures = 0
        self._error = ""
        self._errors = OnceLogger(log)

    @property
    def is_ongoing(self) -> bool:
        """Whether the newest cycle could not use the job directory."""
        return self._since is not None

    @property
    def error(self) -> str | None:
        """Why the newest cycle could not use the job directory, None if it could."""
        return f"the job directory cannot be used: {self._error}" if self.is_ongoing else None

    def retry_interval(self, poll_interval: timedelta) -> timedelta:
        """Interval until the next attempt, with exponential backoff."""
        return _backoff(self._failures, poll_interval, MAX_RETRY_INTERVAL)

    def tolerate(self, error: JobDirectoryError, now: datetime) -> str | None:
        """Begin or continue an outage; return the report of an outage that begins, else None.

        Raises the error if the outage lasts too long, or if waiting cannot end it.
        """
        self._since, self._failures, self._error = self._since or now, self._failures + 1, with_code(error)
        is_too_long = self._timeout is not None and now - self._since > self._timeout
        if isinstance(error, ForeignDirectoryError) or is_too_long:
            raise error
        report = f"the job directory cannot be used; the loop tries again and changes nothing until then: {self._error}"
        self._errors.report(report)
        return report if self._failures == MIN_FAILURES else None

    def end(self, now: datetime) -> str | None:
        """Record that the job directory can be used. Return the report of an outage that ends, else None."""
        since, failures = self._since, self._failures
        self._since, self._failures = None, 0
        self._errors.report(None)
        if since is None or failures < MIN_FAILURES:
            return None
        report = f"the job directory could not be used for {format_duration(now - since)}: {self._error}"
        log.info("%s", report)
        return report


class OpenQuestion:
    """The question whether the loop may take the job over from another attempt, while Airflow does not answer it.

    The loop neither claims the job nor ends: it may be the only loop of the job, or its attempt may be outdated.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._errors = OnceLogger(log)
        self.error: str | None = None
        """Why the question is open, None if it is not open."""

    def keep(self, error: StoreUnavailableError) -> None:
        """Keep the question open, because Airflow has not answered it."""
        self._failures += 1
        self.error = (
            "another attempt wrote the newest document of the journal, and Airflow does not answer whether this attempt may take the job "
            f"over. The loop changes nothing until then, and asks again: {error}"
        )
        self._errors.report(self.error)

    def close(self) -> None:
        """Record that the loop has claimed the job."""
        self._failures, self.error = 0, None
        self._errors.report(None)

    def retry_interval(self, poll_interval: timedelta) -> timedelta:
        """Interval until the next question, with exponential backoff."""
        return _backoff(self._failures, poll_interval, MAX_QUESTION_INTERVAL)


def _backoff(failures: int, first: timedelta, longest: timedelta) -> timedelta:
    return min(first * 2.0 ** min(failures - 1, 30), max(first, longest))
