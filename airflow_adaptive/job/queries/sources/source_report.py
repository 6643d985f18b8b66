"""Reports the sources of a query: from Spark's progress, and from polls of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive._core.protocol.documents import QueryReport
from airflow_adaptive._core.protocol.sources import PartitionLag, SourceReport, TopicReport
from airflow_adaptive.job.queries.sources.kafka_topics import limit_of
from airflow_adaptive.job.queries.sources.offsets import Partition, by_topic, read_offsets, unread_rows
from airflow_adaptive.job.queries.sources.source_monitor import Age, Lag

EVEN: Final = 1.0
"""Skew of a source whose partitions have equally many unread rows."""

MAX_PARTITION_LAGS: Final = 20
"""Partitions in a report. A topic may have thousands of partitions."""

MAX_TOPICS_SIZE: Final = 200_000
"""Characters in the topics of all sources, more than 5,000 partitions. The driver status must stay below `documents.MAX_DOCUMENT_BYTES`."""

TOPIC_SIZE: Final = 120
"""Characters of a topic in a report, beside its name and its partitions."""

PARTITION_SIZE: Final = 20
"""Characters of a partition in a position: its number, and an offset of 12 digits."""


def report_at_batch(source: SourceProgress) -> SourceReport:
    """Return the report of a source at the beginning of a batch. Only the kind is known if the source does not count rows."""
    kind = kind_of(source.description)
    read, ends = read_offsets(source.endOffset), read_offsets(source.latestOffset)
    if read is None or not ends or not read.keys() <= ends.keys():
        return SourceReport(kind=kind)
    return _report(kind, unread_rows(read, ends))


def report_polled(lag: Lag, batch_rows: Mapping[Partition, int]) -> SourceReport:
    """Return the report of a source that was polled, from its lag and the rows of each partition in the newest batch.

    If the lag is unknown, only the kind, the identity and the position of the source are known.
    """
    kind, topics = kind_of(lag.description), _topics(lag)
    if not lag.rows:
        return SourceReport(kind=kind, kafka=lag.kafka, topics=topics, is_lag_unknown=not lag.is_known)
    oldest = max(lag.ages.values(), key=lambda age: age.seconds, default=Age(seconds=0.0))
    return replace(
        _report(kind, lag.rows),
        lag_s=round(oldest.seconds, 1),
        is_lag_minimum=any(age.is_minimum for age in lag.ages.values()),
        partition_lags=tuple(_largest(lag)),
        input_limit=limit_of(lag.rows, batch_rows, lag.division),
        min_partitions=lag.division.min_partitions,
        kafka=lag.kafka,
        topics=topics,
    )


def limit_topics(queries: Sequence[QueryReport]) -> tuple[QueryReport, ...]:
    """Return the reports without positions, or without topics, if these are too large. The loop needs the positions of all sources."""
    for limited in (tuple(queries), tuple(map(_without_positions, queries))):
        if _topics_size(limited) <= MAX_TOPICS_SIZE:
            return limited
    return tuple(map(_without_topics, queries))


def backlog_of(sources: Sequence[SourceReport]) -> int | None:
    """Return the unread rows, or None if not all sources count rows."""
    known = [source.lag_rows for source in sources if source.lag_rows is not None]
    return sum(known) if known and len(known) == len(sources) else None


def kind_of(description: str) -> str:
    """Return the first word of a source's description, or the simple name of a class. The rest may contain a path with credentials."""
    return description.partition("[")[0].partition("@")[0].rpartition(".")[2]


def _topics(lag: Lag) -> dict[str, TopicReport]:
    """Return the topics of a source. A topic that the query has not read yet has no position."""
    position, rows, ages = by_topic(lag.read), by_topic(lag.rows), by_topic(lag.ages)
    return {
        topic: _topic(position.get(topic, {}), rows.get(topic), ages.get(topic, {}), lag.retention_s.get(topic))
        for topic in {**position, **rows}
    }


def _topic(
    position: Mapping[str, int], rows: Mapping[str, int] | None, ages: Mapping[str, Age], retention_s: float | None
) -> TopicReport:
    if rows is None:
        return TopicReport(position=position)
    oldest = max((age.seconds for age in ages.values()), default=0.0)
    return TopicReport(
        position=position,
        lag_rows=sum(rows.values()),
        lag_s=round(oldest, 1),
        is_lag_minimum=any(age.is_minimum for age in ages.values()),
        retention_s=retention_s,
    )


def _topics_size(queries: Sequence[QueryReport]) -> int:
    return sum(
        len(name) + TOPIC_SIZE + PARTITION_SIZE * len(topic.position)
        for query in queries
        for source in query.sources
        for name, topic in source.topics.items()
    )


def _without_positions(query: QueryReport) -> QueryReport:
    def limited(source: SourceReport) -> SourceReport:
        return replace(
            source, kafka=None, topics={name: replace(topic, position={}) for name, topic in source.topics.items()}
        )

    return replace(query, sources=tuple(map(limited, query.sources)))


def _without_topics(query: QueryReport) -> QueryReport:
    return replace(query, sources=tuple(replace(source, kafka=None, topics={}) for source in query.sources))


def _report(kind: str, rows: Mapping[Partition, int]) -> SourceReport:
    total, worst = sum(rows.values()), max(rows, key=lambda partition: rows[partition])
    return SourceReport(
        kind=kind,
        partitions=len(rows),
        lag_rows=total,
        skew=round(rows[worst] * len(rows) / total, 3) if total else EVEN,
        worst_partition=_text(worst) if total else None,
    )


def _largest(lag: Lag) -> list[PartitionLag]:
    lags = [
        PartitionLag(partition=_text(partition), rows=lag.rows[partition], seconds=round(age.seconds, 1))
        for partition, age in lag.ages.items()
    ]
    return sorted(lags, key=lambda it: (-it.seconds, -it.rows, it.partition))[:MAX_PARTITION_LAGS]


def _text(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
