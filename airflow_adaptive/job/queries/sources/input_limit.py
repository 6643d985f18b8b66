"""The number of tasks with which a Kafka source can be read in one batch.

The connector reads each partition in one task, and divides partitions by two options
(`org.apache.spark.sql.kafka010.KafkaOffsetRangeCalculator`):

* `maxRecordsPerPartition` divides a partition with more rows into ranges of at most this size.
* `minPartitions` divides the largest ranges until there are at least as many ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_adaptive.job.queries.sources.offsets import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The options with which a source divides its partitions.

    Attributes:
        min_partitions: value of `minPartitions`, or None.
        max_records: value of `maxRecordsPerPartition`, or None.
    """

    min_partitions: int | None = None
    max_records: int | None = None


def input_limit(partitions: Collection[Partition], rows: Mapping[Partition, int], division: Division) -> int:
    """Return the maximum number of tasks that read the source in one batch.

    Args:
        partitions: partitions of all topics of the source.
        rows: rows of each partition in the newest batch, which `maxRecordsPerPartition` divides.
        division: options of the source.
    """
    tasks = sum(_ranges(rows.get(partition, 0), division.max_records) for partition in partitions)
    return max(tasks, division.min_partitions or 0)


def _ranges(rows: int, max_records: int | None) -> int:
    """Return the number of ranges of a partition. A partition without rows may have rows in the next batch."""
    return 1 if max_records is None else max(1, -(-rows // max_records))
