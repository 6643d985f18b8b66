"""The lag behind a source that counts rows by partition, such as Kafka, from the offsets in Spark's progress.

Spark reports such offsets as `{"topic": {"0": 12}}`: the number of the next row of each partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.streaming.listener import SourceProgress

from airflow_adaptive.job.protocol.documents import SourceReport

EVEN: Final = 1.0
"""Skew of a source whose partitions have equally many unread rows."""

Partition = tuple[str, int]
"""Topic and number of a partition."""


def report_source(source: SourceProgress) -> SourceReport:
    """Return the report of a source at the beginning of a batch. Only the kind is known if the source does not count rows.

    The description of a source may contain a path with credentials, so that the report contains only its first word.
    """
    kind = source.description.partition("[")[0]
    rows = unread_rows(source.endOffset, source.latestOffset)
    if not rows:
        return SourceReport(kind=kind)
    return SourceReport(
        kind=kind,
        partitions=len(rows),
        lag_rows=sum(rows.values()),
        skew=_skew(rows),
        worst_partition=_worst(rows),
    )


def unread_rows(read: str, latest: str) -> dict[Partition, int] | None:
    """Return the unread rows of each partition of the newest offsets, or None if the source does not count rows by partition.

    A query reads a partition that is new from its first row.
    """
    try:
        start, end = _offsets(read), _offsets(latest)
    except (AttributeError, TypeError, ValueError):
        return None
    if not start.keys() <= end.keys():
        return None
    return {partition: max(row - start.get(partition, 0), 0) for partition, row in end.items()}


def _offsets(text: str) -> dict[Partition, int]:
    topics = json.loads(text)
    return {(topic, int(number)): int(row) for topic, rows in topics.items() for number, row in rows.items()}


def _skew(rows: Mapping[Partition, int]) -> float:
    total = sum(rows.values())
    return round(max(rows.values()) * len(rows) / total, 3) if total else EVEN


def _worst(rows: Mapping[Partition, int]) -> str | None:
    topic, number = max(rows, key=lambda partition: rows[partition])
    return f"{topic}-{number}" if rows[topic, number] else None
