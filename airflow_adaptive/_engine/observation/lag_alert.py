"""The alert about the lag of a job: the oldest unread row is older than a threshold, or the brokers will delete it soon."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_adaptive._core.scheduler.config.durations import format_duration
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.observation.known_lag import Expiry
from airflow_adaptive._engine.observation.source_lag import SourceLag

log = logging.getLogger(__name__)

SHARE_OF_RETENTION: Final = 0.5
"""Age of the oldest unread row, as a share of the retention of its topic, above which the job reports that rows will be lost."""


class LagAlerts:
    """Raises an alert when the lag exceeds the threshold, and ends the alert when the lag falls below the threshold.

    While the lag is unknown, an alert about the threshold remains, and unread rows expire. If the oldest row may be older than the lag says, the
    lag raises alerts and ends none. The next loop of the job continues the alerts.
    """

    def __init__(self, threshold: timedelta | None) -> None:
        """Raise no alert yet; without a threshold, raise alerts only about rows that expire."""
        self._threshold = threshold
        self._above_threshold: LagAlert | None = None
        self._expiring: LagAlert | None = None
        self._reported: dict[str, Any] = {}
        """Snapshot of the alerts when all their reasons were in the timeline."""

    @property
    def current(self) -> LagAlert | None:
        """The more important alert, None without one."""
        return self._expiring or self._above_threshold

    def to_snapshot(self, unwritten: Iterable[Reason]) -> dict[str, Any]:
        """Return the alerts for a journal document.

        Args:
            unwritten: reasons that the timeline does not contain yet. Their alerts are not in the snapshot, so that the next loop reports them.
        """
        if not any(reason.code in (ReasonCode.LAG_EXCEEDED, ReasonCode.LAG_RECOVERED) for reason in unwritten):
            alerts = {"above_threshold": self._above_threshold, "expiring": self._expiring}
            self._reported = {name: encode(alert) for name, alert in alerts.items() if alert is not None}
        return self._reported

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue the alerts of an earlier loop. An invalid alert is logged and ignored, and so is one about a threshold that was removed."""
        self._reported = dict(snapshot)
        self._expiring = _restored(snapshot.get("expiring"))
        self._above_threshold = None if self._threshold is None else _restored(snapshot.get("above_threshold"))

    def update(self, lag: SourceLag, now: datetime) -> list[Reason]:
        """Raise or end alerts, and return the reasons to report.

        Args:
            lag: lag of the job.
            now: the time.
        """
        return [*self._check_expiry(lag, now), *self._check_threshold(lag, now)]

    def _check_expiry(self, lag: SourceLag, now: datetime) -> list[Reason]:
        expiry = lag.expiry
        is_close = expiry is not None and expiry.at - now < (1 - SHARE_OF_RETENTION) * expiry.retention
        if expiry is not None and is_close and self._expiring is None:
            age_s = round((now - expiry.at + expiry.retention).total_seconds(), 1)
            self._expiring = LagAlert(since=now, lag_s=age_s, expires_at=expiry.at)
            return [Reason(ReasonCode.LAG_EXCEEDED, _expiry_text(age_s, expiry))]
        if not is_close and lag.is_expiry_known and not lag.is_minimum and self._expiring is not None:
            self._expiring = None
            return [Reason(ReasonCode.LAG_RECOVERED, "the brokers will not delete unread rows soon")]
        return []

    def _check_threshold(self, lag: SourceLag, now: datetime) -> list[Reason]:
        lag_s = lag.seconds
        if self._threshold is None or lag_s is None:
            return []
        threshold = format_duration(self._threshold)
        if lag_s > self._threshold.total_seconds() and self._above_threshold is None:
            self._above_threshold = LagAlert(since=now, lag_s=lag_s)
            text = f"the oldest unread row is {lag_s:g} s old, which exceeds lag_alert_threshold ({threshold})"
            return [Reason(ReasonCode.LAG_EXCEEDED, text)]
        is_recovered = lag_s <= self._threshold.total_seconds() and not lag.is_minimum
        if is_recovered and self._above_threshold is not None:
            self._above_threshold = None
            text = f"the oldest unread row is {lag_s:g} s old, which does not exceed lag_alert_threshold ({threshold})"
            return [Reason(ReasonCode.LAG_RECOVERED, text)]
        return []


def _restored(snapshot: Any) -> LagAlert | None:
    try:
        return None if snapshot is None else decode(LagAlert, snapshot)
    except SnapshotError as error:
        log.warning(
            "The alert about the lag in the journal is invalid, and is raised again if the lag is large: %s", error
        )
        return None


def _expiry_text(age_s: float, expiry: Expiry) -> str:
    return (
        f"the oldest unread row is {age_s:g} s old, and the brokers delete rows after {format_duration(expiry.retention)}: from "
        f"{expiry.at:%Y-%m-%d %H:%M} UTC, records are lost. Increase the parallelism, or `retention.ms` of the topic"
    )
