"""The lag of a job that a driver has reported, source by source, and how polls and later drivers continue it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.job.protocol.sources import SourceReport

SourceKey = tuple[str, int]
"""Name of a query, and number of a source in its report."""

Ends = Mapping[str, Mapping[int, int]]
"""End offset of each partition, by topic."""


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
class SourceState:
    """One source of a query.

    Attributes:
        rows: unread rows, None for a source that does not count rows.
        oldest_at: time at which the oldest unread row or file arrived, None without one, and if the source reports no age.
        is_minimum: whether the oldest unread row may be older.
        position: see `SourceReport.position`.
        retention: age at which the brokers delete a row, None without a limit.
    """

    rows: int | None
    oldest_at: datetime | None
    is_minimum: bool
    position: Mapping[str, Mapping[str, int]]
    retention: timedelta | None

    @property
    def expiry(self) -> Expiry | None:
        """When the brokers delete the oldest unread row, None if they delete none."""
        if self.oldest_at is None or self.retention is None:
            return None
        return Expiry(self.oldest_at + self.retention, self.retention)

    def continued_from(self, earlier: SourceState) -> SourceState:
        """Return the state with the age that an earlier report contains, if this report contains only a minimum of the age."""
        if self.oldest_at is None or not self.is_minimum or earlier.is_minimum:
            return self
        # If nothing was unread, the oldest row arrived later.
        return replace(self, oldest_at=min(self.oldest_at, earlier.oldest_at or self.oldest_at), is_minimum=False)

    def counted(self, ends: Ends, since: datetime) -> SourceState:
        """Return the state with the rows behind the position. Without unread rows until then, the first one arrived after `since`."""
        rows = sum(
            end - self.position[topic].get(str(number), 0)
            for topic in self.position
            for number, end in ends[topic].items()
        )
        oldest_at = self.oldest_at or since if rows else None
        return replace(self, rows=rows, oldest_at=oldest_at, is_minimum=self.is_minimum and rows > 0)

    def is_ahead_of(self, ends: Ends) -> bool:
        """Return whether the brokers do not have rows that the query has read, for example because a topic was created again."""
        return any(
            ends[topic].get(int(number), -1) < row
            for topic, rows in self.position.items()
            for number, row in rows.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLag:
    """The newest known lag.

    Attributes:
        at: time of the lag.
        sources: the sources with a lag.
        is_position_known: False if the queries may have read rows since, or if the brokers do not have the rows before the positions.
    """

    at: datetime
    sources: Mapping[SourceKey, SourceState]
    is_position_known: bool = True

    @property
    def rows(self) -> int | None:
        """Unread rows, None if a source does not count rows."""
        rows = [source.rows for source in self.sources.values() if source.rows is not None]
        return sum(rows) if len(rows) == len(self.sources) else None

    @property
    def oldest_at(self) -> datetime | None:
        """Time at which the oldest unread row or file arrived, None without one."""
        return min((it.oldest_at for it in self.sources.values() if it.oldest_at is not None), default=None)

    @property
    def is_minimum(self) -> bool:
        """Whether the oldest unread row may be older."""
        return any(source.is_minimum for source in self.sources.values())

    @property
    def expiry(self) -> Expiry | None:
        """When the brokers delete the first unread row, None if they delete none, and if unknown."""
        expiries = [it.expiry for it in self.sources.values() if it.expiry is not None]
        return min(expiries, default=None) if self.is_position_known else None

    @property
    def topics(self) -> frozenset[str]:
        """Topics whose end offsets suffice to count the unread rows; empty if the rows cannot be counted without a driver."""
        positions = [source.position for source in self.sources.values()]
        is_countable = self.is_position_known and all(positions)
        return frozenset(topic for position in positions for topic in position) if is_countable else frozenset()

    def counted(self, ends: Ends, now: datetime) -> KnownLag:
        """Return the lag with these end offsets, which were read after `now`."""
        if any(source.is_ahead_of(ends) for source in self.sources.values()):
            return replace(self, is_position_known=False)
        return KnownLag(at=now, sources={key: it.counted(ends, self.at) for key, it in self.sources.items()})

    def has_moved(self, status: DriverStatus) -> bool:
        """Return whether a status shows that its queries may have read rows behind the known positions."""
        return any(
            key not in self.sources or source.position != self.sources[key].position
            for key, source in _sources(status)
            if key in self.sources or source.position or source.is_lag_unknown
        )


def has_lag(status: DriverStatus) -> bool:
    """Return whether a status contains the lag of the job, which is the lag of all sources."""
    sources = [source for _, source in _sources(status)]
    is_known = not any(source.is_lag_unknown for source in sources)
    return is_known and any(source.lag_s is not None for source in sources)


def lag_in(status: DriverStatus, at: datetime, earlier: KnownLag | None) -> KnownLag:
    """Return the lag in a driver status.

    The queries of a new driver report one after the other. Until a query reports, the lag of its sources is the earlier one.

    Args:
        status: a status with a lag.
        at: time of the status.
        earlier: lag before the status, None without one.
    """
    before = earlier.sources if earlier is not None and earlier.is_position_known else {}
    unreported = {query.name for query in status.queries if not query.sources}
    found = {key: _state(source, at) for key, source in _sources(status) if _has_rows(source)}
    continued = {key: it.continued_from(before[key]) if key in before else it for key, it in found.items()}
    return KnownLag(at=at, sources={key: it for key, it in before.items() if key[0] in unreported} | continued)


def _sources(status: DriverStatus) -> Iterator[tuple[SourceKey, SourceReport]]:
    for query in status.queries:
        for number, source in enumerate(query.sources):
            yield (query.name, number), source


def _has_rows(source: SourceReport) -> bool:
    return source.lag_s is not None or source.lag_rows is not None


def _state(source: SourceReport, at: datetime) -> SourceState:
    is_behind = source.lag_s is not None and bool(source.lag_rows or source.unread_files or source.lag_s)
    return SourceState(
        rows=source.lag_rows,
        oldest_at=at - timedelta(seconds=source.lag_s or 0.0) if is_behind else None,
        is_minimum=is_behind and source.is_lag_minimum,
        position=source.position,
        retention=None if source.retention_s is None else timedelta(seconds=source.retention_s),
    )
