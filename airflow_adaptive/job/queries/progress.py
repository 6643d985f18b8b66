"""What a query has done, from the progress that Spark keeps of its last hundred triggers.

Polled rather than listened to: a listener's events come late, through a callback server, and are dropped under load.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql.streaming.listener import StreamingQueryProgress

from airflow_adaptive.job.protocol.documents import QueryReport

NO_WATERMARK: Final = "1970-01-01T00:00:00.000Z"
"""What Spark shows before the first event."""


class ProgressCounter:
    """Counts the committed batches of a query over all its runs in this driver."""

    def __init__(self) -> None:
        """Count from zero."""
        self._last_batch: int | None = None
        self.report: QueryReport | None = None
        self.state_partitions: int | None = None

    def begin(self, name: str, trigger_interval_ms: int | None) -> None:
        """A run of the query was started."""
        self._last_batch = None
        self.state_partitions = None
        before = self.report or QueryReport(name=name, active=True)
        self.report = replace(before, active=True, trigger_interval_ms=trigger_interval_ms)

    def end(self) -> None:
        """The run is over; what it did stays."""
        if self.report is not None:
            self.report = replace(self.report, active=False)

    def update(
        self, last: StreamingQueryProgress | None, recent: Callable[[], Sequence[StreamingQueryProgress]]
    ) -> None:
        """Take up the query's progress.

        Args:
            last: the newest.
            recent: all that Spark keeps, the oldest first; dear, asked only if `last` does not tell all.
        """
        newest = None if last is None else _last_committed(last)
        if last is None or newest is None or newest == self._last_batch:
            return
        tells_all = _committed(last) and self._last_batch is not None and newest == self._last_batch + 1
        for progress in [last] if tells_all else recent():
            if _committed(progress) and (self._last_batch is None or progress.batchId > self._last_batch):
                self._count(progress)
        self._last_batch = newest

    def _count(self, progress: StreamingQueryProgress) -> None:
        if self.report is None:
            return
        before = progress.batchId - 1 if self._last_batch is None else self._last_batch
        self._last_batch = progress.batchId
        self.state_partitions = _state_partitions(progress)
        self.report = replace(
            self.report,
            batch_id=progress.batchId,
            committed=self.report.committed + progress.batchId - before,
            input_rows=self.report.input_rows + progress.numInputRows,
            batch_rows=progress.numInputRows,
            backlog=_backlog(progress),
            batch_duration_ms=progress.durationMs.get("triggerExecution", 0),
            input_rate=_input_rate(progress),
            watermark=_watermark(progress),
        )


def _committed(progress: StreamingQueryProgress) -> bool:
    """Triggers that found no data report progress too, with the number of the batch to come."""
    return "addBatch" in progress.durationMs


def _last_committed(progress: StreamingQueryProgress) -> int:
    return progress.batchId if _committed(progress) else progress.batchId - 1


def _input_rate(progress: StreamingQueryProgress) -> float | None:
    """Of the first trigger of a run Spark says 0, whatever it read: there is no trigger before (`ProgressContext`)."""
    rate = progress.inputRowsPerSecond
    known = math.isfinite(rate) and (rate > 0 or progress.numInputRows == 0)
    return round(rate, 3) if known else None


def _backlog(progress: StreamingQueryProgress) -> int | None:
    """Rows between what was read and what was there, for sources whose offsets count rows per partition (Kafka's do)."""
    found = [_rows_behind(source.endOffset, source.latestOffset) for source in progress.sources]
    told = [rows for rows in found if rows is not None]
    return sum(told) if told and len(told) == len(found) else None


def _rows_behind(read: str, there: str) -> int | None:
    try:
        topics, latest = json.loads(read), json.loads(there)
        pairs = [(end, latest[topic][part]) for topic, parts in topics.items() for part, end in parts.items()]
        return sum(max(int(last) - int(end), 0) for end, last in pairs)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _watermark(progress: StreamingQueryProgress) -> str | None:
    watermark = progress.eventTime.get("watermark")
    return None if watermark == NO_WATERMARK else watermark


def _state_partitions(progress: StreamingQueryProgress) -> int | None:
    return min((operator.numShufflePartitions for operator in progress.stateOperators), default=None)
