"""The lag of a job that a driver has reported, source by source, and how polls and later drivers continue it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.job.protocol.sources import SourceReport

POLL_INTERVAL: Final = timedelta(seconds=10)
"""Interval between two polls of the sources by the driver."""

MAX_POLL_AGE: Final = timedelta(seconds=30)
"""Age of the newest poll of a lag that a driver reports, at most: see `source_monitor.MAX_POLL_AGE_S`."""

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
        is_position_known: False if the query may have read rows since, or if the brokers do not have the rows before the position.
    """

    rows: int | None = None
    oldest_at: datetime | None = None
    is_minimum: bool = False
    position: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    retention: timedelta | None = None
    is_position_known: bool = True

    @property
    def expiry(self) -> Expiry | None:
        """When the brokers delete the oldest unread row, None if they delete none."""
        if self.oldest_at is None or self.retention is None:
            return None
        return Expiry(self.oldest_at + self.retention, self.retention)

    def continued_from(self, earlier: SourceState, at: datetime) -> SourceState:
        """Return the state with what an earlier report tells about the age.

        Args:
            earlier: state of the source in the earlier report.
            at: time of the earlier report.
        """
        if self.oldest_at is None or not earlier.is_position_known or self._is_before(earlier):
            return self
        if self.is_minimum:
            return self._of_new_driver(self.oldest_at, earlier, at)
        is_same_row = bool(self.position) and self.position == earlier.position and not earlier.is_minimum
        if is_same_row and earlier.oldest_at is not None:
            # A driver computes the age once per poll, and reports it several times.
            return replace(self, oldest_at=min(self.oldest_at, earlier.oldest_at))
        return self

    def _of_new_driver(self, oldest_at: datetime, earlier: SourceState, at: datetime) -> SourceState:
        """Return the state with the earlier age. The age of a new driver counts from the last batch, and no row may have arrived for hours since."""
        if earlier.oldest_at is not None and earlier.is_minimum:
            return replace(self, oldest_at=min(oldest_at, earlier.oldest_at))
        if earlier.oldest_at is not None:
            return replace(self, oldest_at=earlier.oldest_at, is_minimum=False)
        if earlier.is_minimum:
            return self
        oldest_at = max(oldest_at, at - MAX_POLL_AGE)  # Nothing was unread, so the oldest row arrived later.
        return replace(self, oldest_at=oldest_at, is_minimum=oldest_at > at + POLL_INTERVAL)

    def _is_before(self, earlier: SourceState) -> bool:
        """Return whether the query may read rows again that the earlier report counts as read, for example because its checkpoint was deleted."""
        return self.position.keys() != earlier.position.keys() or any(
            self.position[topic].get(partition, 0) < row
            for topic, rows in earlier.position.items()
            for partition, row in rows.items()
        )

    def kept(self) -> SourceState:
        """Return the state without a later report. Rows may have arrived, so that nothing is known of a source without unread rows."""
        return replace(self, is_minimum=self.is_minimum or self.oldest_at is None)

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
        is_complete: whether all queries with data have reported their sources.
    """

    at: datetime
    sources: Mapping[SourceKey, SourceState]
    is_complete: bool = True

    @property
    def is_position_known(self) -> bool:
        """Whether the positions of all sources are known."""
        return all(source.is_position_known for source in self.sources.values())

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
        return not self.is_complete or any(source.is_minimum for source in self.sources.values())

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
        ahead = {key for key, source in self.sources.items() if source.is_ahead_of(ends)}
        if ahead:
            return self._without_positions(ahead)
        return replace(self, at=now, sources={key: it.counted(ends, self.at) for key, it in self.sources.items()})

    def after(self, status: DriverStatus) -> KnownLag:
        """Return what is still known after a status without a lag: its queries may have read rows behind the known positions."""
        moved = {key for key, source in _sources(status) if self._has_moved(key, source)}
        return self._without_positions(moved) if moved else self

    def _has_moved(self, key: SourceKey, source: SourceReport) -> bool:
        if key in self.sources and source.position:
            return source.position != self.sources[key].position
        return source.is_lag_unknown or (key in self.sources and bool(self.sources[key].position))

    def _without_positions(self, keys: Collection[SourceKey]) -> KnownLag:
        moved = {key: replace(self.sources.get(key, SourceState()), is_position_known=False) for key in keys}
        return replace(self, sources={**self.sources, **moved})


def has_lag(status: DriverStatus) -> bool:
    """Return whether a status contains the lag of the job, which is the lag of all sources."""
    sources = [source for _, source in _sources(status)]
    is_known = not any(source.is_lag_unknown for source in sources)
    return is_known and any(source.lag_s is not None for source in sources)


def lag_in(status: DriverStatus, at: datetime, earlier: KnownLag | None) -> KnownLag:
    """Return the lag in a driver status.

    The queries of a new driver report one after the other. Until a query reports, the lag of its sources is the earlier one. A query that waits for
    its first row reports no source.

    Args:
        status: a status with a lag.
        at: time of the status.
        earlier: lag before the status, None without one.
    """
    before = KnownLag(at=at, sources={}) if earlier is None else earlier
    found = {key: _state(source, at) for key, source in _sources(status) if _has_rows(source)}
    continued = {
        key: it.continued_from(before.sources[key], before.at) for key, it in found.items() if key in before.sources
    }
    unreported = {query.name for query in status.queries if query.active and not query.sources and not query.idle}
    kept = {key: it.kept() for key, it in before.sources.items() if key[0] in unreported and it.is_position_known}
    with_other_sources = {name for name, _ in before.sources.keys() - kept.keys()}
    is_complete = unreported <= {name for name, _ in kept} - with_other_sources
    return KnownLag(at=at, sources={**kept, **found, **continued}, is_complete=is_complete)


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
