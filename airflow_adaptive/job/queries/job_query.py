"""One streaming query of the job over all its runs, and what all workloads of streaming queries have in common.

The module uses the JVM where the Python API does not suffice: for the exception that ended the query with all its
causes (`org.apache.spark.sql.streaming.StreamingQueryException`), for the trigger, and for whether the first trigger
has begun (`StreamExecution`).

Theory: a query with several watermarks advances to the smallest of them (`spark.sql.streaming.multipleWatermarkPolicy`), and its checkpoint
contains only this one. After a restart, Spark knows no watermark of an operator until its source has new data, and counts it as 0. If the
sources have data at different times and the query restarts between them, the watermark never advances. Therefore a new run of the same
queries continues with the watermarks of the last one. A late restoration does no harm, because watermarks only increase.

The module uses `watermarkTracker`, `logicalPlan` and `awaitProgressLock` of `MicroBatchExecution`, and `operatorToWatermarkMap` of
`WatermarkTracker` of the JVM.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive._core.protocol.failures import report_exception, report_throwable
from airflow_adaptive.job.control.interfaces import RunningWorkload, StatefulRun, Workload
from airflow_adaptive.job.queries.batch_boundary import BatchBoundary, act_between_batches, stop_in_threads
from airflow_adaptive.job.queries.progress import ProgressCounter
from airflow_adaptive.job.queries.sources.query_sources import QuerySources
from airflow_adaptive.job.queries.sources.source_report import limit_topics
from airflow_adaptive.job.spark_internals import from_scala, java_class, private_field, spark_object
from airflow_adaptive.job.state.checkpoint_files import explain_by_damage

log = logging.getLogger(__name__)

WATERMARK_TIMEOUT_S = 2.0
"""Maximum time for which the first trigger is awaited to have a tracker of watermarks, in seconds."""


class JobQuery:
    """A query over all its runs in this driver."""

    def __init__(self, spark: SparkSession, name: str, checkpoint: str) -> None:
        self.name = name
        self.plan: tuple[str, ...] = ()
        self._spark = spark
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None
        self._failure: FailureReport | None = None
        """Failure of the newest run: the inspection of its checkpoint is expensive."""
        self._progress = ProgressCounter()
        self._sources = QuerySources(spark, log.warning)
        self._watermarks = OperatorWatermarks(spark)

    def start(self, writer: DataStreamWriter) -> None:
        """Start the query on the current configuration of the session. Raises the exceptions of Spark."""
        self._query = None
        self.track(writer.queryName(self.name).option("checkpointLocation", self._checkpoint).start())

    def track(self, query: StreamingQuery) -> None:
        """Track a run that was started."""
        self._query, self._failure = query, None
        self._progress.begin(self.name, _trigger_interval_ms(query))
        self._sources.begin(query)

    def boundary(self) -> BatchBoundary | None:
        """Return the batch boundary of the query, or None for a query that was never started."""
        return None if self._query is None else BatchBoundary(self._spark, self._query)

    def stop(self) -> None:
        """Stop the query immediately. May block for ever; see `stop_all`."""
        if self._query is not None:
            self._query._jsq.stop()

    def active(self) -> bool:
        """Return whether the query runs."""
        return self._query is not None and self._query.isActive

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Return whether the first trigger of this run has begun; wait for it up to the timeout. False for a failed query.

        The thread of the query begins the trigger as soon as it is initialized, regardless of the interval of the trigger.
        """
        if self._query is None:
            return False
        execution = self._query._jsq.streamingQuery()
        try:
            execution.awaitInitialization(max(1, round(timeout_s * 1000)))
        except Py4JError:  # the query has failed; see `failure`
            return False
        self._watermarks.restore(execution, WATERMARK_TIMEOUT_S)
        return bool(execution.state().get() != spark_object(self._spark, "INITIALIZING"))

    def failure(self) -> FailureReport | None:
        """Return why the newest run failed, or None."""
        if self._query is None:
            return None
        if self._sources.failure is not None:
            return replace(report_exception(self._sources.failure), query=self.name)
        exception = self._query._jsq.exception()
        if self._failure is None and exception.isDefined():
            reported = report_throwable(exception.get(), self.name)
            execution = self._query._jsq.streamingQuery()
            self._failure = explain_by_damage(self._spark, execution, reported, self._progress.state_partitions)
        return None if self._failure is None else self._sources.explain(self._failure)

    def explain(self, failure: FailureReport) -> FailureReport:
        """Return a failure of the newest run with what the query knows about its sources; see `QuerySources.explain`."""
        return self._sources.explain(failure)

    def report(self) -> QueryReport | None:
        """Return the progress of the query, or None for a query that was never started."""
        self.update()
        report = self._progress.report
        if report is None:
            return None
        polled = self._sources.polled(report, self._progress.sources)
        return replace(polled, active=report.active and self.active(), idle=self._is_idle(), plan=self.plan)

    def stateful_run(self) -> StatefulRun | None:
        """Return the current run, or None if the query does not run, is stateless or has not committed a batch."""
        self.update()
        report, partitions = self._progress.report, self._progress.state_partitions
        if self._query is None or report is None or partitions is None or not self.active():
            return None
        return StatefulRun(run_id=str(self._query.runId), batch_id=report.batch_id, state_partitions=partitions)

    @property
    def state_partitions(self) -> int | None:
        """Number of state partitions of the newest run, or None if unknown or stateless."""
        return self._progress.state_partitions

    def end_run(self) -> None:
        """Record the end of the run."""
        self.update()
        if self._query is not None:
            self._watermarks.keep(self._query._jsq.streamingQuery())
        self._progress.end()
        self._sources.end()

    def update(self) -> None:
        """Read the progress of the query."""
        query = self._query
        if query is not None:
            self._watermarks.restore(query._jsq.streamingQuery())
            self._progress.update(query.lastProgress, lambda: query.recentProgress)

    def _is_idle(self) -> bool:
        query = self._query
        if query is None or not query.isActive:
            return False
        status = query.status
        # No trigger is active before the first one, either (`StreamExecution.updateStatusMessage`).
        return not status["isTriggerActive"] and not str(status["message"]).startswith("Initializing")


def halt_session(spark: SparkSession) -> bool:
    """Cancel all Spark jobs, and stop all queries of the session. Returns False if a query may still be running."""
    try:
        spark.sparkContext.cancelAllJobs()
        return all(stop_in_threads([query._jsq.stop for query in spark.streams.active]))
    except (Py4JError, PySparkException) as error:
        log.warning("the queries have not stopped: %s", error)
        return False


def stop_all(queries: Iterable[JobQuery]) -> bool:
    """Stop queries immediately and at the same time. Returns whether all have stopped in time."""
    return all(stop_in_threads([query.stop for query in queries]))


def boundaries(queries: Iterable[JobQuery]) -> list[BatchBoundary]:
    """Return the batch boundaries of the queries that were started."""
    return [found for query in queries if (found := query.boundary()) is not None]


class StreamingQueries(RunningWorkload, Workload):
    """A workload of streaming queries, which the driver ends at their batch boundaries."""

    def __init__(self, spark: SparkSession, job: str) -> None:
        self._spark = spark
        self._job = job
        self._plan: DriverPlan | None = None

    @abstractmethod
    def _known(self) -> Sequence[JobQuery]:
        """Return all queries of the job."""

    @abstractmethod
    def _running(self) -> Sequence[JobQuery]:
        """Return the queries that may be running."""

    @property
    def running(self) -> RunningWorkload:
        return self

    @property
    def plan(self) -> DriverPlan | None:
        return self._plan

    @property
    def gangs(self) -> Mapping[str, int]:
        return {}

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        return act_between_batches(boundaries(self._running()), timeout_s, pause, act)

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        deadline, queries = time.monotonic() + timeout_s, self._running()
        return bool(queries) and all(
            query.wait_for_first_trigger(max(0.0, deadline - time.monotonic())) for query in queries
        )

    def close(self) -> None:
        for query in self._known():
            query.end_run()
        self._plan = None

    def reports(self) -> tuple[QueryReport, ...]:
        return limit_topics(list(filter(None, (query.report() for query in self._known()))))

    def stateful_run(self) -> StatefulRun | None:
        if self._plan is None:
            return None
        runs = filter(None, (query.stateful_run() for query in self._running()))
        return max(runs, key=lambda run: run.state_partitions, default=None)


def _trigger_interval_ms(query: StreamingQuery) -> int | None:
    trigger = query._jsq.streamingQuery().trigger()
    return int(trigger.intervalMs()) if trigger.getClass().getSimpleName() == "ProcessingTimeTrigger" else None


OPERATOR: Final = "EventTimeWatermark"

TIME_UNIT: Final = "java.util.concurrent.TimeUnit"

CHECK_INTERVAL_S: Final = 0.01

LOCK_TIMEOUT_MS: Final = 1000
"""The thread of the query holds the lock only while it logs offsets or a commit."""


class OperatorWatermarks:
    """The watermarks of the operators of one query, in the order of its plan."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: Sequence[Any] = ()
        """The `Option[Long]` of each operator at the end of the last run, until the new run has it."""

    def keep(self, execution: Any) -> None:
        """Keep the watermarks of a run that has ended. Without two watermarks, the checkpoint contains all of them."""
        try:
            tracker = execution.watermarkTracker()
            if tracker is None or self._kept:  # the run ended before it had the watermarks of the run before it
                return
            known = tracker.watermarkMap()
            self._kept = [known.apply(node) for node in self._nodes(execution)] if known.size() > 1 else ()
        except Py4JError as error:  # not a micro-batch query, or a Spark version with different internals
            log.warning("the watermarks of the query are not kept: %s", error)

    def restore(self, execution: Any, timeout_s: float = 0.0) -> None:
        """Continue with the kept watermarks in a new run, as soon as the run has a tracker; wait for the tracker up to the timeout."""
        if not self._kept:
            return
        deadline = time.monotonic() + timeout_s
        try:
            while (tracker := execution.watermarkTracker()) is None and time.monotonic() < deadline:
                time.sleep(CHECK_INTERVAL_S)
            lock, milliseconds = execution.awaitProgressLock(), java_class(self._spark, TIME_UNIT).MILLISECONDS
            if tracker is None or not lock.tryLock(LOCK_TIMEOUT_MS, milliseconds):
                return
            try:
                self._raise_watermarks(tracker, self._nodes(execution))
            finally:
                lock.unlock()
        except Py4JError as error:
            log.warning("the watermarks of the query are not restored: %s", error)
        self._kept = ()

    def _raise_watermarks(self, tracker: Any, nodes: Sequence[Any]) -> None:
        watermarks = private_field(tracker, "operatorToWatermarkMap")
        if len(nodes) != len(self._kept):
            log.warning(
                "the query has %s watermarks and had %s before: they are not restored", len(nodes), len(self._kept)
            )
            return
        for node, kept in zip(nodes, self._kept, strict=True):
            watermarks.put(node, _later(watermarks.apply(node), kept))

    def _nodes(self, execution: Any) -> list[Any]:
        """Return the identities of the operators that have a watermark, each once."""
        found = {str(node): node for node in self._operators(execution.logicalPlan())}
        return list(found.values())

    def _operators(self, plan: Any) -> Iterator[Any]:
        for child in from_scala(self._spark, plan.children()):
            yield from self._operators(child)
        if plan.getClass().getSimpleName() == OPERATOR:
            yield plan.nodeId()


def _later(one: Any, other: Any) -> Any:
    """Return the later of two watermarks (`Option[Long]`)."""
    if one.isDefined() and other.isDefined():
        return one if one.get() >= other.get() else other
    return one if one.isDefined() else other
