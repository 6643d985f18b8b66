"""Metrics of a query, from the progress that Spark keeps of the last hundred triggers.

The driver polls the progress instead of using a listener, because the events of a listener arrive late, through a
callback server, and are dropped under load.

Theory: the durations of batches do not contain the latency of Real-Time Mode, in which a row leaves the query while its batch runs. Open-source
Spark reports no latency. Therefore the query computes the age of each row by the clock of the executor, and Spark aggregates the ages of a
batch as an observed metric (`Dataset.observe`), which is part of the progress of the query. The clock of the executor and the clock of the
producers must agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from airflow_adaptive._core.protocol.documents import LatencyReport, QueryReport
from airflow_adaptive.job.queries.sources.source_report import backlog_of, report_at_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_WATERMARK: Final = "1970-01-01T00:00:00.000Z"
"""Spark's watermark before the first event."""


class ProgressCounter:
    """Counts the committed batches of a query over all its runs in this driver."""

    def __init__(self) -> None:
        self._last_batch: int | None = None
        self.report: QueryReport | None = None
        self.state_partitions: int | None = None
        self.sources: Sequence[SourceProgress] = ()
        """Progress of the sources in the newest committed batch of the run."""

    def begin(self, name: str, trigger_interval_ms: int | None) -> None:
        """Begin a run of the query."""
        self._last_batch = None
        self.state_partitions = None
        self.sources = ()
        previous = self.report or QueryReport(name=name, active=True)
        self.report = replace(previous, active=True, trigger_interval_ms=trigger_interval_ms)

    def end(self) -> None:
        """End the run; its metrics remain."""
        if self.report is not None:
            self.report = replace(self.report, active=False)

    def update(
        self, last: StreamingQueryProgress | None, recent: Callable[[], Sequence[StreamingQueryProgress]]
    ) -> None:
        """Read the newest progress. `recent` returns all progress that Spark keeps, oldest first, which is expensive."""
        newest = None if last is None else _last_committed(last)
        if last is None or newest is None or newest == self._last_batch:
            return
        is_complete = _committed(last) and self._last_batch is not None and newest == self._last_batch + 1
        for progress in [last] if is_complete else recent():
            if _committed(progress) and (self._last_batch is None or progress.batchId > self._last_batch):
                self._count(progress)
        self._last_batch = newest

    def _count(self, progress: StreamingQueryProgress) -> None:
        if self.report is None:
            return
        before = progress.batchId - 1 if self._last_batch is None else self._last_batch
        self._last_batch = progress.batchId
        self.state_partitions = min((it.numShufflePartitions for it in progress.stateOperators), default=None)
        self.sources = progress.sources
        sources = tuple(map(report_at_batch, progress.sources))
        self.report = replace(
            self.report,
            batch_id=progress.batchId,
            committed=self.report.committed + progress.batchId - before,
            input_rows=self.report.input_rows + progress.numInputRows,
            batch_rows=progress.numInputRows,
            backlog=backlog_of(sources),
            batch_duration_ms=progress.durationMs.get("triggerExecution", 0),
            input_rate=_input_rate(progress),
            watermark=_watermark(progress),
            event_time_delay_s=_event_time_delay_s(progress),
            sources=sources,
            sink=_sink(progress),
            latency=read_latency(progress) or self.report.latency,
        )


def _committed(progress: StreamingQueryProgress) -> bool:
    """Return whether the trigger committed a batch. A trigger without data reports progress with the number of the next batch."""
    return "addBatch" in progress.durationMs


def _last_committed(progress: StreamingQueryProgress) -> int:
    return progress.batchId if _committed(progress) else progress.batchId - 1


def _input_rate(progress: StreamingQueryProgress) -> float | None:
    """Return the input rate. Spark reports 0 for the first trigger of a run, which has no previous trigger (`ProgressContext`)."""
    rate = progress.inputRowsPerSecond
    known = math.isfinite(rate) and (rate > 0 or progress.numInputRows == 0)
    return round(rate, 3) if known else None


def _event_time_delay_s(progress: StreamingQueryProgress) -> float | None:
    newest = progress.eventTime.get("max")
    if newest is None:
        return None
    return (datetime.fromisoformat(progress.timestamp) - datetime.fromisoformat(newest)).total_seconds()


def _sink(progress: StreamingQueryProgress) -> str | None:
    """Return the kind of the sink: the last name of its description, which may be followed by a path or an object id."""
    described = progress.sink.description.partition("[")[0].partition("@")[0]
    return re.split(r"[.$]", described)[-1] or None


def _watermark(progress: StreamingQueryProgress) -> str | None:
    watermark = progress.eventTime.get("watermark")
    return None if watermark == NO_WATERMARK else watermark


METRIC: Final = "adaptive_latency"
"""Name of the observed metric, and of the column that exists only for the metric."""

PERCENTILES: Final = (0.5, 0.95, 0.99)


def observe_latency(rows: DataFrame, since: str = "timestamp") -> DataFrame:
    """Return the same rows, and let Spark measure their latency. The page shows its percentiles for the newest batch with rows.

    Call the function on the rows that go to the sink, as late as possible.

    Args:
        rows: rows of a streaming query.
        since: column with the time at which the latency of a row begins, of the type `timestamp`; Kafka's time of the
            record is `timestamp`. Rows without a time are not counted.
    """
    now = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("bigint")
    age = F.col(METRIC)
    percentiles = F.percentile_approx(age, F.array(*map(F.lit, PERCENTILES)))
    aged = rows.withColumn(METRIC, now - F.unix_millis(F.col(since)))
    return aged.observe(
        METRIC, F.count(age).alias("rows"), percentiles.alias("percentiles"), F.max(age).alias("max")
    ).drop(METRIC)


def read_latency(progress: StreamingQueryProgress) -> LatencyReport | None:
    """Return the latency of the rows of a batch, or None if the query does not measure it or has written no rows."""
    metric = progress.observedMetrics.get(METRIC)
    if metric is None or not metric["rows"]:
        return None
    p50, p95, p99 = metric["percentiles"]
    return LatencyReport(rows=metric["rows"], p50_ms=p50, p95_ms=p95, p99_ms=p99, max_ms=metric["max"])
