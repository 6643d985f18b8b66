"""The lag of a job behind its sources, also while no driver reports the lag.

Theory: without a driver, nothing is read. The position of the last driver status then stays correct, and the end offsets of the brokers
suffice to count the unread rows. The oldest unread row is the one that the driver reported, or the first one that arrived afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.job.protocol.sources import SourceReport
from airflow_adaptive.ports import SourceOffsets, SourceUnreachableError
from airflow_adaptive.runtime.once_logger import OnceLogger

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = timedelta(seconds=10)
"""Interval between two polls of the brokers while no driver reports the lag. The driver uses the same interval."""

MAX_STATUS_AGE: Final = timedelta(seconds=30)
"""Age of a driver status above which the loop polls the brokers. The loops of thousands of jobs read the status of a driver less often."""

MAX_AGE: Final = timedelta(minutes=1)
"""Age above which a lag is unknown. A rescale within the driver is shorter."""

Position = Mapping[str, Mapping[str, int]]
"""Next row that a query has not committed, by topic and partition; see `SourceReport.position`."""


@dataclass(frozen=True, slots=True, order=True)
class Expiry:
    """The deletion of an unread row by the brokers.

    Attributes:
        at: earliest time at which the brokers delete the row.
        retention: retention of its topic.
    """

    at: datetime
    retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """The lag of a job.

    Attributes:
        rows: unread rows, None if unknown.
        seconds: age of the oldest unread row in seconds, None if unknown.
        unknown_since: since when the lag is unknown, None while the lag is known, and for a job whose lag was never known.
        expiry: when the brokers delete the first unread row, None without unread rows and without a retention, and if unknown.
        is_expiry_known: False if the queries have read rows since the newest known lag, so that the next row that expires is unknown.
    """

    rows: int | None = None
    seconds: float | None = None
    unknown_since: datetime | None = None
    expiry: Expiry | None = None
    is_expiry_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The newest known lag.

    Attributes:
        at: time of the lag.
        rows: unread rows, None if a source does not count rows.
        oldest_at: time at which the oldest unread row or file arrived, None without one.
        is_minimum: whether the oldest unread row may be older; see `SourceReport.is_lag_minimum`.
        positions: position of each source that counts rows, empty if the unread rows cannot be counted without a driver.
        expiry: see `SourceLag.expiry`.
        is_expiry_known: see `SourceLag.is_expiry_known`.
        retention: shortest retention of a source, None without one.
    """

    at: datetime
    rows: int | None
    oldest_at: datetime | None
    positions: tuple[Position, ...]
    is_minimum: bool = False
    expiry: Expiry | None = None
    is_expiry_known: bool = True
    retention: timedelta | None = None

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for position in self.positions for topic in position)

    def with_age_of(self, earlier: _Known) -> _Known:
        """Return the lag with the age that an earlier driver measured, if its oldest row is older."""
        oldest = [at for at in (self.oldest_at, earlier.oldest_at) if at is not None]
        expiries = [expiry for expiry in (self.expiry, earlier.expiry) if expiry is not None]
        return replace(self, oldest_at=min(oldest, default=None), expiry=min(expiries, default=None))


class SourceLagMonitor:
    """Owns the lag of one job. A poll of the brokers runs in the background, and never delays the loop."""

    def __init__(self, brokers: SourceOffsets | None) -> None:
        """Know no lag yet.

        Args:
            brokers: brokers of the sources, None without a connection to them.
        """
        self._brokers = brokers
        self._known: _Known | None = None
        self._earlier: _Known | None = None
        """Last lag of an earlier driver, until a driver knows the age of the oldest row."""
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
        interval = MAX_STATUS_AGE if current is not None and _has_lag(current) else POLL_INTERVAL
        if self._known is not None and now - self._known.at >= interval:
            self._begin_poll(self._known, now)
        self._lag = self._lag_at(now)
        return self._lag

    def _read(self, status: DriverStatus | None, now: datetime, *, is_current: bool) -> None:
        """Take over the lag of a status that is new.

        A driver of an earlier epoch wrote its last status in the past. So may have a driver of the current epoch before the loop began.
        """
        if status is None or self._status == (status.nonce, status.sequence):
            return
        if _has_lag(status):
            self.close()
            is_new = is_current and self._status is not None
            self._take(_lag_in(status, now if is_new else min(_time(status) or now, now)), status)
        elif self._known is not None and _has_moved(status, self._known):
            self.close()
            self._known = replace(self._known, positions=(), expiry=None, is_expiry_known=False)

    def _take(self, lag: _Known, status: DriverStatus) -> None:
        """Take over the lag of a status. A new driver knows only a minimum of the age of rows that were there before it."""
        if self._status is not None and self._status[0] != status.nonce:
            self._earlier = self._known
        if not lag.is_minimum:
            self._earlier = None
        self._status = status.nonce, status.sequence
        self._known = lag if self._earlier is None else lag.with_age_of(self._earlier)

    def close(self) -> None:
        """Cancel a poll."""
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None

    def _lag_at(self, now: datetime) -> SourceLag:
        known = self._known
        if known is None:
            return SourceLag()
        if now - known.at > MAX_AGE:
            return SourceLag(unknown_since=known.at, expiry=known.expiry, is_expiry_known=known.is_expiry_known)
        age = 0.0 if known.oldest_at is None else (now - known.oldest_at).total_seconds()
        return SourceLag(
            rows=known.rows,
            seconds=round(max(age, 0.0), 1),
            expiry=known.expiry,
            is_expiry_known=known.is_expiry_known,
        )

    def _begin_poll(self, known: _Known, now: datetime) -> None:
        is_polling = self._poll is not None and not self._poll.done()
        is_due = self._polled_at is None or now - self._polled_at >= POLL_INTERVAL
        if self._brokers is not None and known.positions and is_due and not is_polling:
            self._polled_at = now
            self._poll = asyncio.create_task(self._count(self._brokers, known, now))

    async def _count(self, brokers: SourceOffsets, known: _Known, now: datetime) -> None:
        """Count the unread rows behind the position of the last driver."""
        try:
            ends = await brokers.end_offsets(known.topics)
        except SourceUnreachableError as error:
            self._warnings.report(f"The lag of the job is unknown while no driver runs: {error}")
            return
        self._warnings.report(None)
        if any(_is_invalid(position, ends) for position in known.positions):
            self._known = replace(known, positions=(), is_expiry_known=False)
            return
        rows = sum(_unread(position, ends) for position in known.positions)
        # The first unread row arrived after the last time without unread rows.
        oldest_at = known.oldest_at or known.at if rows else None
        expiry = None if oldest_at is None else known.expiry or _expiry(oldest_at, known.retention)
        self._known = replace(known, at=now, rows=rows, oldest_at=oldest_at, expiry=expiry)


def _has_lag(status: DriverStatus) -> bool:
    """Return whether a status contains the lag of the job, which is the lag of all sources."""
    sources = _sources(status)
    is_known = not any(source.is_lag_unknown for source in sources)
    return is_known and any(source.lag_s is not None for source in sources)


def _has_moved(status: DriverStatus, known: _Known) -> bool:
    """Return whether the queries may have read rows behind the known positions. Several queries may read the same topic."""
    positions = [source.position for source in _sources(status) if source.position or source.is_lag_unknown]
    remaining = [*known.positions]
    for position in positions:
        if position not in remaining:
            return True
        remaining.remove(position)
    return bool(_sources(status)) and not positions


def _sources(status: DriverStatus) -> list[SourceReport]:
    return [source for query in status.queries for source in query.sources]


def _lag_in(status: DriverStatus, at: datetime) -> _Known:
    """Return the lag in a driver status."""
    sources = [source for source in _sources(status) if source.lag_s is not None or source.lag_rows is not None]
    limited = [
        (source.lag_s or 0.0, timedelta(seconds=source.retention_s))
        for source in sources
        if source.retention_s is not None
    ]
    expiries = [_expiry(at - timedelta(seconds=lag_s), retention) for lag_s, retention in limited if lag_s]
    ages = [timedelta(seconds=source.lag_s or 0.0) for source in sources if source.lag_s or source.lag_rows]
    rows = [source.lag_rows for source in sources if source.lag_rows is not None]
    return _Known(
        at=at,
        rows=sum(rows) if len(rows) == len(sources) else None,
        oldest_at=at - max(ages) if ages else None,
        is_minimum=any(source.is_lag_minimum for source in sources),
        positions=tuple(source.position for source in sources) if all(source.position for source in sources) else (),
        expiry=min(filter(None, expiries), default=None),
        retention=min((retention for _, retention in limited), default=None),
    )


def _expiry(oldest_at: datetime, retention: timedelta | None) -> Expiry | None:
    return None if retention is None else Expiry(oldest_at + retention, retention)


def _is_invalid(position: Position, ends: Mapping[str, Mapping[int, int]]) -> bool:
    """Return whether the brokers have lost rows that a query has read, for example because a topic was deleted and created again."""
    return any(
        ends[topic].get(int(number), -1) < row for topic, rows in position.items() for number, row in rows.items()
    )


def _unread(position: Position, ends: Mapping[str, Mapping[int, int]]) -> int:
    """Return the unread rows of a source. A query reads a new partition from its first row."""
    return sum(
        max(end - position[topic].get(str(number), 0), 0) for topic in position for number, end in ends[topic].items()
    )


def _time(status: DriverStatus) -> datetime | None:
    try:
        return datetime.fromisoformat(status.at)
    except ValueError:
        return None
