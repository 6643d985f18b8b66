"""The sources of one query over all its runs: which of them the driver polls, and what their reports contain.

The module uses the JVM: `lastExecution` and `sink` of `StreamExecution`.

A file source lists its directory when a batch begins. With `maxFilesPerTrigger` or `maxBytesPerTrigger`, Spark keeps the files above the limit for
the next batches, and lists the directory again when few of them are left. The driver reads this list in the JVM, because listing a large
directory a second time is slow, and Spark reports no metrics of it. Files that arrived after the list are not in it. Without a list, no file is unread
only if the last listing has found none: while a batch runs, files arrive that nothing has listed.

The module uses a private field of `FileStreamSource` of the JVM.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import FailureReport, QueryReport
from airflow_adaptive._core.protocol.failures import DATA_LOSS
from airflow_adaptive._core.protocol.sources import FILES, Shuffle, SourceReport, TopicReport
from airflow_adaptive.job.queries.sources.kafka_topics import KafkaSourceError, KafkaTopics, kafka_relations
from airflow_adaptive.job.queries.sources.offsets import (
    ReadPosition,
    position_in_checkpoint,
    position_of_run,
    read_offsets,
    unread_rows,
)
from airflow_adaptive.job.queries.sources.source_monitor import PolledRun, SourceMonitor, error_text
from airflow_adaptive.job.queries.sources.source_report import kind_of, report_at_batch, report_polled
from airflow_adaptive.job.queries.sources.table_commits import TableSources
from airflow_adaptive.job.queries.sources.topic_ids import TopicRecreatedError
from airflow_adaptive.job.spark_internals import from_scala, private_field, writer_plans

MAX_LISTING_AGE_MS: Final = 60_000
"""Longest interval between two triggers after which a directory without new files counts as read. Each trigger lists it once."""


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """Files of one source.

    Attributes:
        count: number of files.
        oldest_ms: modification time of the oldest file in Unix milliseconds, None without files.
    """

    count: int
    oldest_ms: int | None


class FileSources:
    """The file sources of one query over all its runs. `warn` is called once if Spark does not provide their files."""

    def __init__(self, spark: SparkSession, warn: Callable[[str], None]) -> None:
        self._spark = spark
        self._warn = warn
        self._warned = False
        self._execution: Any = None

    def begin(self, execution: Any) -> None:
        """Begin a run (`MicroBatchExecution`)."""
        self._execution = execution

    def unread(self, trigger_interval_ms: int | None) -> Mapping[int, UnreadFiles]:
        """Return the unread files of the sources, by the number of the source in the query, without the sources whose unread files are unknown."""
        try:
            sources = enumerate(from_scala(self._spark, self._execution.sources()))
            found = {number: _read(source) for number, source in sources if source.getClass().getSimpleName() == FILES}
            is_old = self._execution.status().isDataAvailable() or (trigger_interval_ms or 0) > MAX_LISTING_AGE_MS
            return {number: files for number, files in found.items() if files.count or not is_old}
        except Py4JError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"the unread files of the sources are not known: {error_text(error)}")
            return {}


def report_files(files: UnreadFiles | None, now_s: float) -> SourceReport:
    """Return the report of a file source with these unread files, None if unknown, at a time in seconds since the Unix epoch."""
    report = SourceReport(kind=FILES)
    if files is None:
        return report
    if files.oldest_ms is None:
        return replace(report, unread_files=0, lag_s=0.0)
    return replace(report, unread_files=files.count, lag_s=round(max(0.0, now_s - files.oldest_ms / 1000), 1))


def _read(source: Any) -> UnreadFiles:
    files = private_field(source, "unreadFiles")
    if files is None or files.isEmpty():
        return UnreadFiles(0, None)
    # The files are in the order of their modification, the oldest first or last.
    return UnreadFiles(files.size(), min(files.head().timestamp(), files.last().timestamp()))


EXCHANGE: Final = re.compile(r"(?<![A-Za-z])Exchange ")

REPARTITION: Final = re.compile(r"\bREPARTITION_BY_(?:NUM|COL)\b")

FOREACH_BATCH: Final = "ForeachBatchSink"


def shuffle_of(execution: Any) -> Shuffle | None:
    """Return how the rows get to other tasks after they were read, or None before the first batch."""
    if str(execution.sink().getClass().getSimpleName()).startswith(FOREACH_BATCH):
        return Shuffle.UNKNOWN
    last = execution.lastExecution()
    return None if last is None else shuffle_in(str(last.executedPlan().toString()))


def shuffle_in(plan: str) -> Shuffle:
    """Return the shuffle in the text of a physical plan."""
    if REPARTITION.search(plan):
        return Shuffle.REPARTITION
    return Shuffle.EXCHANGE if EXCHANGE.search(plan) else Shuffle.NONE


class QuerySources:
    """The sources of one query. The driver loop calls the methods, which never wait for a source; see `SourceMonitor` for `warn`."""

    def __init__(self, spark: SparkSession, warn: Callable[[str], None]) -> None:
        self._spark = spark
        self._warn = warn
        self._monitor = SourceMonitor(warn)
        self._files = FileSources(spark, warn)
        self._tables = TableSources(spark, warn)
        self._limits: dict[int, int] = {}
        """Largest input limit of each source in the batches of the run."""
        self._newest: tuple[SourceReport, ...] = ()
        """Newest reports of the sources."""
        self._run: _Run | None = None
        self._explanation: str | None = None
        """Which Kafka source has caused the failure of the run; "" if that cannot be found."""

    def begin(self, query: StreamingQuery) -> None:
        """Begin to poll the sources of a run."""
        self._limits.clear()
        execution = query._jsq.streamingQuery()
        self._files.begin(execution)
        self._tables.begin(execution)
        self._explanation = None
        self._run = _Run(self._spark, execution, self._warn)
        self._monitor.begin(self._run)

    def end(self) -> None:
        """End the polls of the run."""
        self._monitor.end()
        self._tables.end()

    @property
    def failure(self) -> Exception | None:
        """Why the run was stopped; see `SourceMonitor.failure` and `TableSources.failure`."""
        return self._monitor.failure or self._tables.failure

    def explain(self, failure: FailureReport) -> FailureReport:
        """Return the failure of the run with the topics and the servers, which Kafka's own messages do not contain. Sends requests to the brokers once."""
        is_of_kafka = any(cause.startswith("org.apache.kafka.") for cause in failure.causes)
        if self._run is None or not is_of_kafka or failure.error_class.startswith(DATA_LOSS):
            return failure
        if self._explanation is None:
            self._explanation = self._monitor.problem or self._run.explain()
        return replace(failure, message=f"{self._explanation}: {failure.message}") if self._explanation else failure

    def polled(self, report: QueryReport, progress: Sequence[SourceProgress]) -> QueryReport:
        """Return the report of the query with the newest polls of its sources. Before the first batch of the run, there is no progress."""
        self._newest = self._reports(progress, report.trigger_interval_ms) if progress else self._before_first_batch()
        shuffle = self._monitor.shuffle if progress else report.shuffle
        return replace(
            report, sources=self._newest, shuffle=shuffle, source_problem=self._monitor.problem or self._tables.problem
        )

    def _before_first_batch(self) -> tuple[SourceReport, ...]:
        """Return the sources of a run without a batch: of a run that begins from a checkpoint, or as the earlier run of this driver left them."""
        polled = tuple(report_polled(lag, {}) for lag in self._monitor.before_first_batch())
        return polled or tuple(map(_unknown, self._newest))

    def _reports(self, progress: Sequence[SourceProgress], trigger_interval_ms: int | None) -> tuple[SourceReport, ...]:
        has_files = any(kind_of(source.description) == FILES for source in progress)
        files = self._files.unread(trigger_interval_ms) if has_files else {}
        return tuple(self._report(number, source, files) for number, source in enumerate(progress))

    def _report(self, number: int, source: SourceProgress, files: Mapping[int, UnreadFiles]) -> SourceReport:
        if kind_of(source.description) == FILES:
            return report_files(files.get(number), time.time())
        if (table := self._tables.report(number, source)) is not None:
            return table
        read = read_offsets(source.endOffset)
        lag = None if read is None else self._monitor.lag(number, source.description, read)
        if read is None or lag is None:
            return report_at_batch(source)
        found = report_polled(lag, unread_rows(read_offsets(source.startOffset) or read, read))
        if found.input_limit is None:
            return found
        self._limits[number] = max(found.input_limit, self._limits.get(number, 0))
        return replace(found, input_limit=self._limits[number])


def _unknown(source: SourceReport) -> SourceReport:
    """Return the report of a source whose lag is not known at the moment, if it has one at all."""
    if not (source.topics or source.is_lag_unknown or source.lag_s is not None):
        return source
    topics = {name: TopicReport(position=topic.position) for name, topic in source.topics.items()}
    return SourceReport(kind=source.kind, kafka=source.kafka, topics=topics, is_lag_unknown=True)


class _Run(PolledRun):
    """A run of a query."""

    def __init__(self, spark: SparkSession, execution: Any, warn: Callable[[str], None]) -> None:
        self._spark = spark
        self._execution = execution
        self._warn = warn

    def sources(self) -> Mapping[int, KafkaTopics]:
        checkpoint = str(self._execution.resolvedCheckpointRoot())
        return {
            number: KafkaTopics(self._spark, number, relation, checkpoint, self._warn)
            for number, relation in kafka_relations(self._spark, self._execution.analyzedPlan())
        }

    def explain(self) -> str:
        """Return the problem of the first source with one, else all sources with their topics and servers; "" if these are not known."""
        sources: Mapping[int, KafkaTopics] = {}
        try:
            sources = self.sources()
            for source in sources.values():
                source.explain()
        except KafkaSourceError as error:
            return str(error)
        except (Py4JError, PySparkException):
            return ""
        finally:
            _close(sources.values())
        return "the query reads " + ", ".join(source.text for source in sources.values()) if sources else ""

    def position(self) -> ReadPosition | None:
        return position_of_run(self._spark, self._execution)

    def shuffle(self) -> Shuffle | None:
        return shuffle_of(self._execution)

    def stop(self) -> None:
        self._execution.stop()


def require_known_topics(
    spark: SparkSession, writer: DataStreamWriter, checkpoint: str, warn: Callable[[str], None]
) -> None:
    """Raise `TopicRecreatedError` for a query that was not started, if a topic that it has read was deleted and created again.

    A check that fails does not refuse the query, which needs the same brokers itself. The monitor repeats the check.
    """
    sources: dict[int, KafkaTopics] = {}
    try:
        for number, relation in kafka_relations(spark, writer_plans(writer).analyzed()):
            sources[number] = KafkaTopics(spark, number, relation, checkpoint, warn)
        read = position_in_checkpoint(spark, checkpoint) if sources else None
        for number, source in sources.items():
            try:
                source.require_known_topics({} if read is None else read.offsets.get(number, {}))
            except (Py4JError, PySparkException, KafkaSourceError) as error:
                warn(f"the topics of {source.description} cannot be checked before the start: {error_text(error)}")
    except TopicRecreatedError:
        raise
    except Exception as error:  # noqa: BLE001  Errors of the JVM, and of unexpected answers
        warn(f"the topics of the query cannot be checked before the start: {error_text(error)}")
    finally:
        _close(sources.values())


def _close(sources: Iterable[KafkaTopics]) -> None:
    for source in sources:
        with suppress(Py4JError, PySparkException):
            source.close()
