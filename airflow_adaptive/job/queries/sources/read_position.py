"""The position of a query in its sources, from the query's checkpoint.

The module uses `OffsetSeqLog` and `CommitLog` of the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from airflow_adaptive.job.queries.sources.offsets import Offsets, read_offsets
from airflow_adaptive.job.spark_internals import from_scala, offset_metadata
from airflow_adaptive.job.state.checkpoint import Checkpoint


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
