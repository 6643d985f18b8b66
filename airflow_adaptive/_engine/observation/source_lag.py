"""The lag of a job behind its sources, also while no driver reports the lag, and the alerts about it.

Theory: without a driver, nothing is read. The position of the last driver status then stays correct, and the end offsets of the brokers
suffice to count the unread rows. The oldest unread row is the one that the driver reported, or the first one that arrived afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive._core.ports import SourceOffsets, SourceUnreachableError
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.scheduler.config.parsing import format_duration
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.observation.known_lag import MAX_AGE, POLL_INTERVAL, Expiry, KnownLag, has_lag, lag_in
from airflow_adaptive._engine.once_logger import OnceLogger

log = logging.getLogger(__name__)

MAX_STATUS_AGE: Final = timedelta(seconds=30)
"""Age of a driver status above which the loop polls the brokers. The loops of thousands of jobs read the status of a driver less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """The lag of a job.

    Attributes:
        rows: unread rows, None if unknown.
        seconds: age of the oldest unread row in seconds, None if unknown.
        least_s: the same of the sources that know their backlog, while others do not; it raises alerts. None otherwise.
        unknown_since: since when the lag is unknown, None while the lag is known, and for a job without a source whose lag can be known.
        expiry: when the brokers delete the first unread row, None without unread rows and without a retention, and if unknown.
        is_expiry_known: whether `expiry` considers all unread rows. False if the lag was never known, if the queries have read rows since it was
            known, and if the retention of a topic with unread rows is unknown.
        is_minimum: whether the oldest unread row may be older.
        problem: why the driver cannot read a source at the moment; see `QueryReport.source_problem`.
    """

    rows: int | None = None
    seconds: float | None = None
    least_s: float | None = None
    unknown_since: datetime | None = None
    expiry: Expiry | None = None
    is_expiry_known: bool = True
    is_minimum: bool = False
    problem: str | None = None


class SourceLagMonitor:
    """Owns the lag of one job. A poll of the brokers runs in the background, and never delays the loop."""

    def __init__(self, brokers: SourceOffsets | None) -> None:
        self._brokers = brokers
        self._known: KnownLag | None = None
        self._never_known_since: datetime | None = None
        """Since when a source cannot be read, while no lag is known."""
        self._status: tuple[str, int] | None = None
        self.lag = SourceLag()
        """The lag after the newest update."""
        self._poll: asyncio.Task[None] | None = None
        self._polled_at: datetime | None = None
        self._warnings = OnceLogger(log)

    def update(self, current: DriverStatus | None, newest: DriverStatus | None, now: datetime) -> SourceLag:
        """Return the lag, and begin a poll of the brokers if no driver reports the lag.

        `current` is the status of the driver of the current epoch, `newest` that of any driver.
        """
        self._read(current or newest, now, is_current=current is not None)
        interval = MAX_STATUS_AGE if current is not None and has_lag(current) else POLL_INTERVAL
        if self._known is not None and now - self._known.at >= interval:
            self._begin_poll(self._known, now)
        self.lag = replace(self._lag_at(now), problem=None if current is None else _problem(current))
        return self.lag

    def _read(self, status: DriverStatus | None, now: datetime, *, is_current: bool) -> None:
        """Take over the lag of a status that is new.

        A driver of an earlier epoch wrote its last status in the past. So may have a driver of the current epoch before the loop began.
        """
        if status is None or self._status == (status.nonce, status.sequence):
            return
        if has_lag(status):
            self.close()
            is_new = is_current and self._status is not None
            self._status = status.nonce, status.sequence
            self._known = lag_in(status, now if is_new else min(_time(status) or now, now), self._known)
        elif self._known is None:
            self._never_known_since = self._never_known_since or (now if _problem(status) else None)
        elif (still_known := self._known.after(status)) is not self._known:
            self.close()
            self._known = still_known

    def close(self) -> None:
        """Cancel a poll."""
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None

    def _lag_at(self, now: datetime) -> SourceLag:
        known = self._known
        if known is None:
            return SourceLag(is_expiry_known=False, unknown_since=self._never_known_since)
        lag = SourceLag(expiry=known.expiry, is_expiry_known=known.is_expiry_known, is_minimum=known.is_minimum)
        if now - known.at > MAX_AGE:
            return replace(lag, unknown_since=known.at)
        age = 0.0 if known.oldest_at is None else (now - known.oldest_at).total_seconds()
        seconds = round(max(age, 0.0), 1)
        if not known.is_known:
            return replace(lag, least_s=seconds, unknown_since=known.unreported_since)
        return replace(lag, rows=known.rows, seconds=seconds)

    def _begin_poll(self, known: KnownLag, now: datetime) -> None:
        is_polling = self._poll is not None and not self._poll.done()
        is_due = self._polled_at is None or now - self._polled_at >= POLL_INTERVAL
        if self._brokers is not None and known.countable and is_due and not is_polling:
            self._polled_at = now
            self._poll = asyncio.create_task(self._count(self._brokers, known, now))

    async def _count(self, brokers: SourceOffsets, known: KnownLag, now: datetime) -> None:
        """Count the unread rows behind the position of the last driver."""
        try:
            sources = known.countable
            found = await asyncio.gather(*(brokers.end_offsets(source, topics) for source, topics in sources.values()))
        except SourceUnreachableError as error:
            self._warnings.report(f"The lag of the job is unknown while no driver runs: {error}")
            return
        self._warnings.report(None)
        self._known = known.counted(dict(zip(sources, found, strict=True)), now)


def _problem(status: DriverStatus) -> str | None:
    return next((query.source_problem for query in status.queries if query.source_problem is not None), None)


def _time(status: DriverStatus) -> datetime | None:
    try:
        return datetime.fromisoformat(status.at)
    except ValueError:
        return None


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
        """Return the alerts after an observation, and the reasons to report. Without a threshold, only rows that expire raise alerts."""
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
    lag_s = lag.least_s if lag.seconds is None else lag.seconds
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
