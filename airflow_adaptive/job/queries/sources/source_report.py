"""Reports the sources of a query: from Spark's progress, and from polls of the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive.job.protocol.documents import QueryReport
from airflow_adaptive.job.protocol.sources import PartitionLag, SourceReport
from airflow_adaptive.job.queries.sources.end_offsets import Age
from airflow_adaptive.job.queries.sources.input_limit import input_limit as limit_of
from airflow_adaptive.job.queries.sources.offsets import Partition, by_topic, read_offsets, unread_rows
from airflow_adaptive.job.queries.sources.source_monitor import Lag

EVEN: Final = 1.0
"""Skew of a source whose partitions have equally many unread rows."""

MAX_PARTITION_LAGS: Final = 20
"""Partitions in a report. A topic may have thousands of partitions."""

MAX_POSITION_SIZE: Final = 100_000
"""Characters in the positions of all sources, about 5,000 partitions. The driver status must stay below `codec.MAX_DOCUMENT_BYTES`."""

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
    """Return the report of a source that was polled. If its lag is unknown, only its kind and its position are known.

    Args:
        lag: lag behind the source.
        batch_rows: rows of each partition in the newest batch.
    """
    kind, position = kind_of(lag.description), by_topic(lag.read)
    if not lag.rows:
        return SourceReport(kind=kind, position=position, is_lag_unknown=not lag.is_known)
    oldest = max(lag.ages.values(), key=lambda age: age.seconds, default=Age(seconds=0.0))
    report = _report(
        kind,
        lag.rows,
        lag_s=round(oldest.seconds, 1),
        is_lag_minimum=any(age.is_minimum for age in lag.ages.values()),
        partition_lags=tuple(_largest(lag)),
        input_limit=limit_of(lag.rows, batch_rows, lag.division),
        min_partitions=lag.division.min_partitions,
    )
    return replace(report, retention_s=lag.retention_s, position=position)


def limit_positions(queries: Sequence[QueryReport]) -> tuple[QueryReport, ...]:
    """Return the reports without positions if the positions are too large. The loop needs the positions of all sources."""
    positions = [source.position for query in queries for source in query.sources]
    size = sum(len(topic) + PARTITION_SIZE * len(rows) for position in positions for topic, rows in position.items())
    return tuple(queries) if size <= MAX_POSITION_SIZE else tuple(map(_without_position, queries))


def backlog_of(sources: Sequence[SourceReport]) -> int | None:
    """Return the unread rows, or None if not all sources count rows."""
    known = [source.lag_rows for source in sources if source.lag_rows is not None]
    return sum(known) if known and len(known) == len(sources) else None


def kind_of(description: str) -> str:
    """Return the first word of a source's description. The rest may contain a path with credentials."""
    return description.partition("[")[0]


def _without_position(query: QueryReport) -> QueryReport:
    return replace(query, sources=tuple(replace(source, position={}) for source in query.sources))


def _report(
    kind: str,
    rows: Mapping[Partition, int],
    *,
    lag_s: float | None = None,
    is_lag_minimum: bool = False,
    partition_lags: tuple[PartitionLag, ...] = (),
    input_limit: int | None = None,
    min_partitions: int | None = None,
) -> SourceReport:
    return SourceReport(
        kind=kind,
        partitions=len(rows),
        lag_rows=sum(rows.values()),
        skew=_skew(rows),
        worst_partition=_worst(rows),
        lag_s=lag_s,
        is_lag_minimum=is_lag_minimum,
        partition_lags=partition_lags,
        input_limit=input_limit,
        min_partitions=min_partitions,
    )


def _largest(lag: Lag) -> list[PartitionLag]:
    lags = [
        PartitionLag(partition=_text(partition), rows=lag.rows[partition], seconds=round(age.seconds, 1))
        for partition, age in lag.ages.items()
    ]
    return sorted(lags, key=lambda it: (-it.seconds, -it.rows, it.partition))[:MAX_PARTITION_LAGS]


def _skew(rows: Mapping[Partition, int]) -> float:
    total = sum(rows.values())
    return round(max(rows.values()) * len(rows) / total, 3) if total else EVEN


def _worst(rows: Mapping[Partition, int]) -> str | None:
    worst = max(rows, key=lambda partition: rows[partition])
    return _text(worst) if rows[worst] else None


def _text(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
