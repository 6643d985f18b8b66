"""The alert about the lag of a job: the age of the oldest unread row at the sources exceeds a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.scheduler.config.durations import format_duration
from airflow_adaptive.scheduler.timeline import Reason, ReasonCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAlert:
    """An alert.

    Attributes:
        since: time at which the lag exceeded the threshold.
        lag_s: lag at that time: age of the oldest unread row, in seconds.
    """

    since: datetime
    lag_s: float


class LagAlerts:
    """Raises an alert when the lag exceeds the threshold, and ends the alert when the lag falls below the threshold.

    While the lag is unknown, an alert remains.
    """

    def __init__(self, threshold: timedelta | None) -> None:
        """Raise no alert yet; without a threshold, never raise an alert."""
        self._threshold = threshold
        self._current: LagAlert | None = None

    @property
    def current(self) -> LagAlert | None:
        """The alert, None without one."""
        return self._current

    def update(self, status: DriverStatus | None, now: datetime) -> Reason | None:
        """Raise or end the alert, and return the reason to report; None if nothing has changed.

        Args:
            status: status of the driver of the current epoch, None without a status.
            now: the time.
        """
        lags = [] if status is None else [query.lag_s for query in status.queries if query.lag_s is not None]
        if self._threshold is None or not lags:
            return None
        lag_s, threshold = max(lags), format_duration(self._threshold)
        if lag_s > self._threshold.total_seconds() and self._current is None:
            self._current = LagAlert(since=now, lag_s=lag_s)
            text = f"the oldest unread row is {lag_s:g} s old, which exceeds lag_alert_threshold ({threshold})"
            return Reason(ReasonCode.LAG_EXCEEDED, text)
        if lag_s <= self._threshold.total_seconds() and self._current is not None:
            self._current = None
            text = f"the oldest unread row is {lag_s:g} s old, which does not exceed lag_alert_threshold ({threshold})"
            return Reason(ReasonCode.LAG_RECOVERED, text)
        return None
