"""The lag of a job behind its sources, also while no driver reports the lag.

Theory: without a driver, nothing is read. The position of the last driver status then stays correct, and the end offsets of the brokers
suffice to count the unread rows. The oldest unread row is the one that the driver reported, or the first one that arrived afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive._core.ports import SourceOffsets, SourceUnreachableError
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._engine.observation.known_lag import Expiry, KnownLag, has_lag, lag_in
from airflow_adaptive._engine.once_logger import OnceLogger

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = timedelta(seconds=10)
"""Interval between two polls of the brokers while no driver reports the lag. The driver uses the same interval."""

MAX_STATUS_AGE: Final = timedelta(seconds=30)
"""Age of a driver status above which the loop polls the brokers. The loops of thousands of jobs read the status of a driver less often."""

MAX_AGE: Final = timedelta(minutes=1)
"""Age above which a lag is unknown. A rescale within the driver is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """The lag of a job.

    Attributes:
        rows: unread rows, None if unknown.
        seconds: age of the oldest unread row in seconds, None if unknown.
        unknown_since: since when the lag is unknown, None while the lag is known, and for a job without a source whose lag can be known.
        expiry: when the brokers delete the first unread row, None without unread rows and without a retention, and if unknown.
        is_expiry_known: whether `expiry` considers all unread rows. False if the lag was never known, if the queries have read rows since it was
            known, and if the retention of a topic with unread rows is unknown.
        is_minimum: whether the oldest unread row may be older.
        problem: why the driver cannot read a source at the moment; see `QueryReport.source_problem`.
    """

    rows: int | None = None
    seconds: float | None = None
    unknown_since: datetime | None = None
    expiry: Expiry | None = None
    is_expiry_known: bool = True
    is_minimum: bool = False
    problem: str | None = None


class SourceLagMonitor:
    """Owns the lag of one job. A poll of the brokers runs in the background, and never delays the loop."""

    def __init__(self, brokers: SourceOffsets | None) -> None:
        """Know no lag yet.

        Args:
            brokers: brokers of the sources, None without a connection to them.
        """
        self._brokers = brokers
        self._known: KnownLag | None = None
        self._never_known_since: datetime | None = None
        """Since when a source cannot be read, while no lag is known."""
        self._status: tuple[str, int] | None = None
        self._lag = SourceLag()
        self._poll: asyncio.Task[None] | None = None
        self._polled_at: datetime | None = None
        self._warnings = OnceLogger(log)

    @property
    def lag(self) -> SourceLag:
        """The lag after the newest update."""
        return self._lag

    def update(self, current: DriverStatus | None, newest: DriverStatus | None, now: datetime) -> SourceLag:
        """Return the lag, and begin a poll of the brokers if no driver reports the lag.

        Args:
            current: status of the driver of the current epoch, None without one.
            newest: newest status of any driver, None without one.
            now: the time.
        """
        self._read(current or newest, now, is_current=current is not None)
        interval = MAX_STATUS_AGE if current is not None and has_lag(current) else POLL_INTERVAL
        if self._known is not None and now - self._known.at >= interval:
            self._begin_poll(self._known, now)
        self._lag = replace(self._lag_at(now), problem=None if current is None else _problem(current))
        return self._lag

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
        return replace(lag, rows=known.rows, seconds=round(max(age, 0.0), 1))

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
