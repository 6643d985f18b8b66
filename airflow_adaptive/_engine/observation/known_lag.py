"""The lag of a job that a driver has reported, topic by topic, and how polls and later drivers continue it.

Theory: a position, an end offset, the age of a row and a retention belong to one topic of one source on one cluster. What a driver has not reported
about a topic is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.protocol.sources import NO_RETENTION, KafkaSource, SourceReport, TopicReport

POLL_INTERVAL: Final = timedelta(seconds=10)
"""Interval between two polls of the sources by the driver, and by the loop while no driver reports the lag."""

MAX_POLL_AGE: Final = timedelta(seconds=30)
"""Age of the newest poll of a lag that a driver reports, at most: see `source_monitor.MAX_POLL_AGE_S`."""

MAX_AGE: Final = timedelta(minutes=1)
"""Age above which a lag is unknown. A rescale within the driver is shorter, and so are most batches that read the last files of a list."""

KAFKA: Final = "Kafka"
"""Beginning of the kind of a Kafka source in a report."""

SourceKey = tuple[str, int]
"""Name of a query, and number of a source in its report."""

TopicKey = tuple[str, int, str]
"""Key of a source, and name of a topic; "" for a source without topics."""

Ends = Mapping[str, Mapping[int, int]]
"""End offset of each partition, by topic."""


@dataclass(frozen=True, slots=True, order=True)
class Expiry:
    """The earliest time at which the brokers delete an unread row, and the retention of its topic."""

    at: datetime
    retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic of a source, or a source without topics.

    Attributes:
        rows: unread rows, None for a source that does not count rows.
        oldest_at: time at which the oldest unread row or file arrived, None without one, and if the source reports no age.
        is_minimum: whether the oldest unread row may be older.
        kafka: identity of the source, None for another source, and if unknown.
        position: see `TopicReport.position`.
        retention_s: see `TopicReport.retention_s`.
        is_known: False for a source that does not know its backlog now.
        is_position_known: False if the query may have read rows since, or if the brokers do not have the rows before the position.
    """

    rows: int | None = None
    oldest_at: datetime | None = None
    is_minimum: bool = False
    kafka: KafkaSource | None = None
    position: Mapping[str, int] = field(default_factory=dict)
    retention_s: float | None = None
    is_known: bool = True
    is_position_known: bool = True

    @property
    def expiry(self) -> Expiry | None:
        """When the brokers delete the oldest unread row, None if they delete none, and if unknown."""
        if self.oldest_at is None or self.retention_s in (None, NO_RETENTION):
            return None
        retention = timedelta(seconds=self.retention_s)
        return Expiry(self.oldest_at + retention, retention)

    @property
    def is_expiry_known(self) -> bool:
        """Whether it is known when the brokers delete the oldest unread row."""
        return self.is_position_known and (self.oldest_at is None or self.retention_s is not None)

    def continued_from(self, earlier: TopicState, at: datetime) -> TopicState:
        """Return the state with what an earlier report, of the time `at`, tells about the age."""
        if self.oldest_at is None or not earlier.is_position_known or self._is_before(earlier):
            return self
        if self.is_minimum:
            return self._of_new_driver(self.oldest_at, earlier, at)
        is_same_row = bool(self.position) and self.position == earlier.position and not earlier.is_minimum
        if is_same_row and earlier.oldest_at is not None:
            # A driver computes the age once per poll, and reports it several times.
            return replace(self, oldest_at=min(self.oldest_at, earlier.oldest_at))
        return self

    def _of_new_driver(self, oldest_at: datetime, earlier: TopicState, at: datetime) -> TopicState:
        """Return the state with the earlier age. The age of a new driver counts from the last batch, and no row may have arrived for hours since."""
        if earlier.oldest_at is not None and earlier.is_minimum:
            return replace(self, oldest_at=min(oldest_at, earlier.oldest_at))
        if earlier.oldest_at is not None:
            return replace(self, oldest_at=earlier.oldest_at, is_minimum=False)
        if earlier.is_minimum:
            return self
        oldest_at = max(oldest_at, at - MAX_POLL_AGE)  # Nothing was unread, so the oldest row arrived later.
        return replace(self, oldest_at=oldest_at, is_minimum=oldest_at > at + POLL_INTERVAL)

    def _is_before(self, earlier: TopicState) -> bool:
        """Return whether the query may read rows again that the earlier report counts as read, for example because its checkpoint was deleted."""
        return is_other_cluster(self.kafka, earlier.kafka) or any(
            self.position.get(partition, 0) < row for partition, row in earlier.position.items()
        )

    def kept(self) -> TopicState:
        """Return the state without a later report. Rows may have arrived, so that nothing is known of a source without unread rows."""
        return replace(self, is_minimum=self.is_minimum or self.oldest_at is None)

    def counted(self, ends: Mapping[int, int], since: datetime) -> TopicState:
        """Return the state with the rows behind the position. Without unread rows until then, the first one arrived after `since`."""
        rows = sum(end - self.position.get(str(number), 0) for number, end in ends.items() if self._reads(number))
        oldest_at = self.oldest_at or since if rows else None
        return replace(self, rows=rows, oldest_at=oldest_at, is_minimum=self.is_minimum and rows > 0)

    def is_ahead_of(self, ends: Mapping[int, int]) -> bool:
        """Return whether the brokers do not have rows that the query has read, for example because a topic was created again."""
        return any(ends.get(int(number), -1) < row for number, row in self.position.items())

    def _reads(self, partition: int) -> bool:
        """Return whether the query reads a partition: it reads new ones, unless the script has assigned the partitions."""
        return str(partition) in self.position or self.kafka is None or not self.kafka.assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLag:
    """The newest known lag.

    Attributes:
        at: time of the lag.
        topics: the topics with a lag, and the other sources with a lag.
        is_complete: whether all queries with data have reported their sources.
        unreported_since: since when a source does not report its backlog, None while all sources do.
    """

    at: datetime
    topics: Mapping[TopicKey, TopicState]
    is_complete: bool = True
    unreported_since: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Whether the lag is that of all sources."""
        return all(topic.is_known for topic in self.topics.values())

    @property
    def rows(self) -> int | None:
        """Unread rows, None if a source does not count rows."""
        rows = [topic.rows for topic in self.topics.values() if topic.rows is not None]
        return sum(rows) if len(rows) == len(self.topics) else None

    @property
    def oldest_at(self) -> datetime | None:
        """Time at which the oldest unread row or file arrived, None without one."""
        known = [topic.oldest_at for topic in self.topics.values() if topic.is_known and topic.oldest_at is not None]
        return min(known, default=None)

    @property
    def is_minimum(self) -> bool:
        """Whether the oldest unread row may be older: that of a source counts which was behind when it last knew its backlog."""
        unknown = [topic.oldest_at for topic in self.topics.values() if not topic.is_known]
        return not self.is_complete or any(unknown) or any(topic.is_minimum for topic in self.topics.values())

    @property
    def expiry(self) -> Expiry | None:
        """When the brokers delete the first unread row, None if they delete none, and if unknown."""
        expiries = [it.expiry for it in self.topics.values() if it.expiry is not None]
        return min(expiries, default=None) if self._is_position_known else None

    @property
    def is_expiry_known(self) -> bool:
        """Whether `expiry` considers all unread rows."""
        return all(topic.is_expiry_known for topic in self.topics.values())

    @property
    def countable(self) -> Mapping[SourceKey, tuple[KafkaSource, frozenset[str]]]:
        """The sources with their topics whose end offsets suffice to count the unread rows; empty if these cannot be counted without a driver."""
        found: dict[SourceKey, tuple[KafkaSource, frozenset[str]]] = {}
        for (query, number, name), topic in self.topics.items():
            if not topic.is_known:
                continue
            if topic.kafka is None or not topic.is_position_known:
                return {}
            _, names = found.get((query, number), (topic.kafka, frozenset()))
            found[query, number] = topic.kafka, names | {name}
        return found

    def counted(self, ends: Mapping[SourceKey, Ends], now: datetime) -> KnownLag:
        """Return the lag with the end offsets of the topics of `countable`, and of new topics that match a pattern, which were read after `now`."""
        of_topic = {(*source, name): found for source, topics in ends.items() for name, found in topics.items()}
        ahead = {key for key, topic in self.topics.items() if topic.is_ahead_of(of_topic.get(key, {}))}
        if ahead:
            return self._without_positions(ahead)
        sources = {key: source for key, (source, _) in self.countable.items()}
        known = {
            key: self.topics.get(key, TopicState(kafka=sources[key[:2]])).counted(found, self.at)
            for key, found in of_topic.items()
        }
        return replace(self, at=now, topics={**self.topics, **known})

    def after(self, status: DriverStatus) -> KnownLag:
        """Return what is still known after a status without a lag: its queries may have read rows behind the known positions."""
        moved: set[TopicKey] = set()
        for key, source in _sources(status):
            topics = _topics(source)
            moved.update((*key, name) for name, topic in topics.items() if self._has_moved((*key, name), source, topic))
            unreported = {it: known for it, known in self.topics.items() if it[:2] == key and it[2] not in topics}
            moved.update(it for it, known in unreported.items() if source.is_lag_unknown or known.position)
        return self._without_positions(moved) if moved else self

    @property
    def _is_position_known(self) -> bool:
        return all(topic.is_position_known for topic in self.topics.values())

    def _has_moved(self, key: TopicKey, source: SourceReport, topic: TopicReport) -> bool:
        known = self.topics.get(key)
        if known is not None and topic.position:
            return topic.position != known.position or is_other_cluster(source.kafka, known.kafka)
        return source.is_lag_unknown or (known is not None and bool(known.position))

    def _without_positions(self, keys: Collection[TopicKey]) -> KnownLag:
        moved = {key: replace(self.topics.get(key, TopicState()), is_position_known=False) for key in keys}
        return replace(self, topics={**self.topics, **moved})


def is_other_cluster(source: KafkaSource | None, earlier: KafkaSource | None) -> bool:
    """Return whether a source reads another cluster than before. A driver whose brokers have not answered does not know its cluster."""
    return source is not None and earlier is not None and source.cluster != earlier.cluster


def has_lag(status: DriverStatus) -> bool:
    """Return whether a status contains a lag, and no source has lost its own."""
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
    before = KnownLag(at=at, topics={}) if earlier is None else earlier
    found = {
        (*key, name): _state(source, topic, at)
        for key, source in _sources(status)
        for name, topic in _topics(source).items()
        if topic.lag_s is not None or topic.lag_rows is not None
    }
    missing = {(*key, "") for key, source in _sources(status) if source.is_backlog_unknown}
    since = (before.unreported_since or at) if missing else None
    is_recent = since is not None and at - since <= MAX_AGE
    unknown = {
        key: last.kept()
        if is_recent and key in before.topics
        else replace(last, rows=None, is_minimum=False, is_known=False)
        for key in missing
        for last in (before.topics.get(key, TopicState()),)
    }
    continued = {
        key: it.continued_from(before.topics[key], before.at) for key, it in found.items() if key in before.topics
    }
    unreported = {query.name for query in status.queries if query.active and not query.sources and not query.idle}
    kept = {key: it.kept() for key, it in before.topics.items() if key[0] in unreported and it.is_position_known}
    with_other_topics = {key[0] for key in before.topics.keys() - kept.keys()}
    is_complete = unreported <= {key[0] for key in kept} - with_other_topics
    topics = {**kept, **found, **unknown, **continued}
    return KnownLag(at=at, topics=topics, is_complete=is_complete, unreported_since=since)


def _sources(status: DriverStatus) -> Iterator[tuple[SourceKey, SourceReport]]:
    for query in status.queries:
        for number, source in enumerate(query.sources):
            yield (query.name, number), source


def _topics(source: SourceReport) -> Mapping[str, TopicReport]:
    """Return the topics of a source, or the source itself as its only one. Only Kafka deletes rows because of their age."""
    if source.topics:
        return source.topics
    retention_s = None if source.kind.startswith(KAFKA) else NO_RETENTION
    return {
        "": TopicReport(
            lag_rows=source.lag_rows,
            lag_s=source.lag_s,
            is_lag_minimum=source.is_lag_minimum,
            retention_s=retention_s,
        )
    }


def _state(source: SourceReport, topic: TopicReport, at: datetime) -> TopicState:
    is_behind = topic.lag_s is not None and bool(
        topic.lag_rows or source.unread_files or source.unread_versions or topic.lag_s
    )
    return TopicState(
        rows=topic.lag_rows,
        oldest_at=at - timedelta(seconds=topic.lag_s or 0.0) if is_behind else None,
        is_minimum=is_behind and topic.is_lag_minimum,
        kafka=source.kafka,
        position=topic.position,
        retention_s=topic.retention_s,
    )
