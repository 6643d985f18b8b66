"""Offsets of a source that counts rows by partition, such as Kafka. Spark writes such offsets as `{"topic": {"0": 12}}`.

The module uses `OffsetSeqLog` and `CommitLog` of the JVM.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from airflow_adaptive.job.spark_internals import from_scala, offset_metadata
from airflow_adaptive.job.state.checkpoint import Checkpoint

Fact = TypeVar("Fact")

Partition = tuple[str, int]
"""Topic and number of a partition."""

Offsets = Mapping[Partition, int]
"""Number of the next row of each partition."""


def parse_offset(text: str | None) -> Any:
    """Return the offset in a text of Spark's progress, or None. Before Spark 4.2, PySpark contains the text of a Python object instead of JSON."""
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return parse(text or "")
    return None


def read_offsets(text: str | None) -> Offsets | None:
    """Return the offsets in a text, or None if the source does not count rows by partition."""
    try:
        topics = parse_offset(text)
        return {(topic, int(number)): int(row) for topic, rows in topics.items() for number, row in rows.items()}
    except (AttributeError, TypeError, ValueError):
        return None


def by_topic(facts: Mapping[Partition, Fact]) -> dict[str, dict[str, Fact]]:
    """Return offsets, or other facts of partitions, as JSON contains them: by topic, and by the number of the partition as text."""
    topics: dict[str, dict[str, Fact]] = {}
    for (topic, number), fact in facts.items():
        topics.setdefault(topic, {})[str(number)] = fact
    return topics


def unread_rows(read: Offsets, ends: Offsets) -> dict[Partition, int]:
    """Return the unread rows of each partition of the end offsets. A query reads a new partition from its first row."""
    return {partition: max(row - read.get(partition, 0), 0) for partition, row in ends.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """The position after the newest committed batch.

    Attributes:
        at: time at which the batch began, in seconds since the Unix epoch.
        offsets: offsets that the query has read, by the number of the source; only of sources that count rows by partition.
        sources: number of sources of the query.
    """

    at: float
    offsets: Mapping[int, Offsets]
    sources: int


def position_of_run(spark: SparkSession, execution: Any) -> ReadPosition | None:
    """Return the position of a query that was started, or None if the query has no committed batch. Raises the exceptions of Spark."""
    return _position(spark, execution.offsetLog(), execution.commitLog())


def position_in_checkpoint(spark: SparkSession, checkpoint: str) -> ReadPosition | None:
    """Return the position at which a query will start from a checkpoint, or None without a committed batch. Raises the exceptions of Spark."""
    logs = Checkpoint(spark, checkpoint)
    return _position(spark, logs.offsets, logs.commits)


def _position(spark: SparkSession, offsets: Any, commits: Any) -> ReadPosition | None:
    committed = commits.getLatestBatchId()
    logged = offsets.get(committed.get()) if committed.isDefined() else committed
    metadata = offset_metadata(spark, logged.get()) if logged.isDefined() else logged
    if not metadata.isDefined():
        return None
    texts = [
        offset.get().json() if offset.isDefined() else None for offset in from_scala(spark, logged.get().offsets())
    ]
    known = {number: offsets for number, text in enumerate(texts) if (offsets := read_offsets(text)) is not None}
    return ReadPosition(at=metadata.get().batchTimestampMs() / 1000, offsets=known, sources=len(texts))
