"""The sources of one query over all its runs: which of them the driver polls, and what their reports contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.protocol.documents import QueryReport
from airflow_adaptive.job.protocol.sources import Shuffle, SourceReport
from airflow_adaptive.job.queries.sources.kafka_topics import KafkaTopics, kafka_relations
from airflow_adaptive.job.queries.sources.offsets import read_offsets, unread_rows
from airflow_adaptive.job.queries.sources.query_plan import shuffle_of
from airflow_adaptive.job.queries.sources.read_position import ReadPosition, read_position
from airflow_adaptive.job.queries.sources.source_monitor import PolledSource, SourceMonitor
from airflow_adaptive.job.queries.sources.source_report import report_at_batch, report_polled


class QuerySources:
    """The sources of one query. The driver loop calls the methods, which never wait for a source."""

    def __init__(self, spark: SparkSession, warn: Callable[[str], None]) -> None:
        """Poll nothing yet.

        Args:
            spark: session of the driver.
            warn: see `SourceMonitor`.
        """
        self._spark = spark
        self._monitor = SourceMonitor(warn)
        self._limits: dict[int, int] = {}
        """Largest input limit of each source in the batches of the run."""

    def begin(self, query: StreamingQuery) -> None:
        """Begin to poll the sources of a run."""
        self._limits.clear()
        self._monitor.begin(_Run(self._spark, query._jsq.streamingQuery()))

    def end(self) -> None:
        """End the polls of the run."""
        self._monitor.end()

    def polled(self, report: QueryReport, progress: Sequence[SourceProgress]) -> QueryReport:
        """Return the report of the query with the newest polls of its sources.

        Args:
            report: report of the query at its newest batch.
            progress: progress of the sources in the newest committed batch of the run, empty before this batch.
        """
        if not progress:
            before = tuple(report_polled(lag, {}) for lag in self._monitor.before_first_batch())
            return replace(report, sources=before) if before else report
        sources = tuple(self._report(number, source) for number, source in enumerate(progress))
        return replace(report, sources=sources, shuffle=self._monitor.shuffle)

    def _report(self, number: int, source: SourceProgress) -> SourceReport:
        read = read_offsets(source.endOffset)
        lag = None if read is None else self._monitor.lag(number, source.description, read)
        if read is None or lag is None:
            return report_at_batch(source)
        found = report_polled(lag, unread_rows(read_offsets(source.startOffset) or read, read))
        if found.input_limit is None:
            return found
        self._limits[number] = max(found.input_limit, self._limits.get(number, 0))
        return replace(found, input_limit=self._limits[number])


class _Run:
    """A run of a query; see `source_monitor.PolledRun`."""

    def __init__(self, spark: SparkSession, execution: Any) -> None:
        self._spark = spark
        self._execution = execution

    def sources(self) -> Mapping[int, PolledSource]:
        relations = kafka_relations(self._spark, self._execution.analyzedPlan())
        return {number: KafkaTopics(self._spark, relation, self._checkpoint) for number, relation in relations}

    @property
    def _checkpoint(self) -> str:
        return str(self._execution.resolvedCheckpointRoot())

    def position(self) -> ReadPosition | None:
        return read_position(self._spark, self._execution)

    def shuffle(self) -> Shuffle | None:
        return shuffle_of(self._execution)
