"""What a query has done, from the progress that Spark keeps of its last hundred triggers.

Polled rather than listened to: a listener's events come late, through a callback server, and are dropped under load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress

from airflow_adaptive.job.documents import QueryReport

NO_WATERMARK: Final = "1970-01-01T00:00:00.000Z"
"""What Spark shows before the first event."""


class ProgressCounter:
    """Counts the committed batches of a query over all its runs in this driver."""

    def __init__(self) -> None:
        """Count from zero."""
        self._seen: int | None = None
        self.report: QueryReport | None = None
        self.state_partitions: int | None = None

    def begin(self, name: str) -> None:
        """A run of the query was started."""
        self._seen = None
        self.state_partitions = None
        self.report = QueryReport(name=name, active=True) if self.report is None else replace(self.report, active=True)

    def end(self) -> None:
        """The run is over; what it did stays."""
        if self.report is not None:
            self.report = replace(self.report, active=False)

    def follow(
        self, last: StreamingQueryProgress | None, recent: Callable[[], Sequence[StreamingQueryProgress]]
    ) -> None:
        """Take up the query's progress.

        Args:
            last: the newest.
            recent: all that Spark keeps, the oldest first; dear, asked only if `last` does not tell all.
        """
        newest = None if last is None else _last_committed(last)
        if last is None or newest is None or newest == self._seen:
            return
        tells_all = _committed(last) and self._seen is not None and newest == self._seen + 1
        for progress in [last] if tells_all else recent():
            if _committed(progress) and (self._seen is None or progress.batchId > self._seen):
                self._count(progress)
        self._seen = newest

    def _count(self, progress: StreamingQueryProgress) -> None:
        if self.report is None:
            return
        before = progress.batchId - 1 if self._seen is None else self._seen
        self._seen = progress.batchId
        self.state_partitions = _state_partitions(progress)
        self.report = replace(
            self.report,
            batch_id=progress.batchId,
            committed=self.report.committed + progress.batchId - before,
            input_rows=self.report.input_rows + progress.numInputRows,
            batch_duration_ms=progress.durationMs.get("triggerExecution", 0),
            watermark=_watermark(progress),
        )


def _committed(progress: StreamingQueryProgress) -> bool:
    """Triggers that found no data report progress too, with the number of the batch to come."""
    return "addBatch" in progress.durationMs


def _last_committed(progress: StreamingQueryProgress) -> int:
    return progress.batchId if _committed(progress) else progress.batchId - 1


def _watermark(progress: StreamingQueryProgress) -> str | None:
    watermark = progress.eventTime.get("watermark")
    return None if watermark == NO_WATERMARK else watermark


def _state_partitions(progress: StreamingQueryProgress) -> int | None:
    return min((operator.numShufflePartitions for operator in progress.stateOperators), default=None)
