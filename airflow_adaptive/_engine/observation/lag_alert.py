"""The alert about the lag of a job: the oldest unread row is older than a threshold, or the brokers will delete it soon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive._core.scheduler.config.durations import format_duration
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.observation.known_lag import Expiry
from airflow_adaptive._engine.observation.source_lag import SourceLag

SHARE_OF_RETENTION: Final = 0.5
"""Age of the oldest unread row, as a share of the retention of its topic, above which the job reports that rows will be lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAlerts:
    """Alerts that are raised when the lag exceeds the threshold, and end when the lag falls below the threshold.

    While the lag is unknown, an alert about the threshold remains, and unread rows expire. If the oldest row may be older than the lag says, the
    lag raises alerts and ends none. The next loop of the job continues the alerts.

    Attributes:
        above_threshold: the alert about the threshold, None without one.
        expiring: the alert about unread rows that expire, None without one.
    """

    above_threshold: LagAlert | None = None
    expiring: LagAlert | None = None

    @property
    def current(self) -> LagAlert | None:
        """The more important alert, None without one."""
        return self.expiring or self.above_threshold

    def updated(self, lag: SourceLag, threshold: timedelta | None, now: datetime) -> tuple[LagAlerts, list[Reason]]:
        """Return the alerts after an observation, and the reasons to report.

        Args:
            lag: lag of the job.
            threshold: lag above which an alert is raised; None raises alerts only about rows that expire.
            now: the time.
        """
        expiring, expiry_reasons = _expiring(self.expiring, lag, now)
        above, threshold_reasons = _above_threshold(self.above_threshold, lag, threshold, now)
        return LagAlerts(above_threshold=above, expiring=expiring), [*expiry_reasons, *threshold_reasons]


def are_about_lag(reasons: Iterable[Reason]) -> bool:
    """Return whether one of the reasons reports the begin or the end of an alert."""
    return any(reason.code in (ReasonCode.LAG_EXCEEDED, ReasonCode.LAG_RECOVERED) for reason in reasons)


def _expiring(alert: LagAlert | None, lag: SourceLag, now: datetime) -> tuple[LagAlert | None, list[Reason]]:
    expiry = lag.expiry
    is_close = expiry is not None and expiry.at - now < (1 - SHARE_OF_RETENTION) * expiry.retention
    if expiry is not None and is_close and alert is None:
        age_s = round((now - expiry.at + expiry.retention).total_seconds(), 1)
        raised = LagAlert(since=now, lag_s=age_s, expires_at=expiry.at)
        return raised, [Reason(ReasonCode.LAG_EXCEEDED, _expiry_text(age_s, expiry))]
    if not is_close and lag.is_expiry_known and not lag.is_minimum and alert is not None:
        return None, [Reason(ReasonCode.LAG_RECOVERED, "the brokers will not delete unread rows soon")]
    return alert, []


def _above_threshold(
    alert: LagAlert | None, lag: SourceLag, threshold: timedelta | None, now: datetime
) -> tuple[LagAlert | None, list[Reason]]:
    lag_s = lag.seconds
    if threshold is None or lag_s is None:
        return (None if threshold is None else alert), []
    is_above, name = lag_s > threshold.total_seconds(), f"lag_alert_threshold ({format_duration(threshold)})"
    if is_above and alert is None:
        text = f"the oldest unread row is {lag_s:g} s old, which exceeds {name}"
        return LagAlert(since=now, lag_s=lag_s), [Reason(ReasonCode.LAG_EXCEEDED, text)]
    if not is_above and not lag.is_minimum and alert is not None:
        text = f"the oldest unread row is {lag_s:g} s old, which does not exceed {name}"
        return None, [Reason(ReasonCode.LAG_RECOVERED, text)]
    return alert, []


def _expiry_text(age_s: float, expiry: Expiry) -> str:
    return (
        f"the oldest unread row is {age_s:g} s old, and the brokers delete rows after {format_duration(expiry.retention)}: from "
        f"{expiry.at:%Y-%m-%d %H:%M} UTC, records are lost. Increase the parallelism, or `retention.ms` of the topic"
    )
