"""The age of unread rows, from the end offsets of a source that were recorded over time.

Theory: Spark and Kafka's offsets do not contain the time at which a row arrived. The end offset of a partition was recorded before and
after the arrival of a row, so that the time of the arrival is interpolated between these two records. A row that was there before the
first record has at least the age of this record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_adaptive.job.queries.sources.offsets import Offsets, Partition

MAX_RECORDS: Final = 360
"""Maximum number of records of a partition. Above this number, the history keeps every second record of its older half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """The age of the oldest unread row of a partition.

    Attributes:
        seconds: age of the row.
        is_minimum: whether the row was there before the first record, so that the row is older.
    """

    seconds: float
    is_minimum: bool = False


class EndOffsetHistory:
    """The end offsets of each partition over time, while a query may not have read their rows."""

    def __init__(self) -> None:
        self._records: dict[Partition, deque[tuple[float, int]]] = {}
        self._restored_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the history has no record."""
        return not self._records

    @property
    def ends(self) -> Offsets:
        """The newest end offset of each partition."""
        return {partition: records[-1][1] for partition, records in self._records.items()}

    def record(self, at: float, ends: Offsets) -> None:
        """Record the end offsets at a time, in seconds.

        Partitions that were deleted or created again lose their earlier records, and so do all partitions if the clock was set back.
        """
        self._records = {partition: self._records.get(partition, deque()) for partition in ends}
        for partition, records in self._records.items():
            if records and (ends[partition] < records[-1][1] or at < records[-1][0]):
                records.clear()
            records.append((at, ends[partition]))
            _thin(records)

    def restore(self, at: float, read: Offsets) -> None:
        """Begin with the position of an earlier driver. Later rows may have been there already: a batch has a limited number of rows.

        Args:
            at: time at which the batch began that read the rows before the position, in seconds.
            read: the position.
        """
        self.record(at, read)
        self._restored_at = at

    def ages(self, read: Offsets, now: float) -> Mapping[Partition, Age]:
        """Return the age of the oldest unread row of each partition that has unread rows.

        Args:
            read: offsets that the query has read. The query reads a new partition from its first row.
            now: the time, in seconds.
        """
        return {
            partition: self._age(records, read.get(partition, 0), now)
            for partition, records in self._records.items()
            if records[-1][1] > read.get(partition, 0)
        }

    def forget(self, read: Offsets) -> None:
        """Drop the records that `ages` no longer needs, because the query has read up to these offsets."""
        for partition, records in self._records.items():
            while len(records) > 1 and records[1][1] <= read.get(partition, 0):
                records.popleft()

    def _age(self, records: deque[tuple[float, int]], row: int, now: float) -> Age:
        """Return the age of an unread row, which arrived between the last record that does not contain the row and the next record."""
        before = records[0]
        if before[1] > row:
            return Age(seconds=max(now - before[0], 0.0), is_minimum=True)
        after = before
        for after in records:
            if after[1] > row:
                break
            before = after
        share = (row - before[1]) / (after[1] - before[1])
        seconds = max(now - before[0] - share * (after[0] - before[0]), 0.0)
        return Age(seconds=seconds, is_minimum=before[0] == self._restored_at)


def _thin(records: deque[tuple[float, int]]) -> None:
    if len(records) > MAX_RECORDS:
        older = [records.popleft() for _ in range(MAX_RECORDS // 2)]
        records.extendleft(reversed(older[::2]))
