"""The job's streaming query: built by the author's function, started on a plan, followed, ended.

Reaches into the JVM for what Python does not show: the name that the script gave its query (`extraOptions` of
`org.apache.spark.sql.classic.DataStreamWriter`), the exception that ended it with all its causes
(`org.apache.spark.sql.streaming.StreamingQueryException`), its trigger, and whether that has begun to fire
(`org.apache.spark.sql.execution.streaming.runtime.StreamExecution`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.boundary import RUNTIME, BatchBoundary
from airflow_adaptive.job.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.failures import report_throwable
from airflow_adaptive.job.jvm import scala_object
from airflow_adaptive.job.progress import ProgressCounter, StatefulRun

Writer = DataStreamWriter | DataFrameWriter
"""What the author's function returns: a streaming query that is not started, or a batch that is not saved."""

Build = Callable[[SparkSession, Mapping[str, int]], Writer]
"""The author's function: `(spark, parallelism per vertex) -> df.writeStream...`, or `-> df.write...`."""

HALT_TIMEOUT_MS: Final = 10_000
"""How long a query that is stopped at once may take to let go of its thread."""

SESSION: Final = {
    # A vertex keeps the number of tasks that its plan promises.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.stopTimeout": str(HALT_TIMEOUT_MS),
}


class AdaptiveJobError(TypeError):
    """The author's function gave something that can't be run: no restart mends that."""


class JobQuery:
    """The one query of the job, run again with each new plan in the same session."""

    def __init__(
        self,
        spark: SparkSession,
        build: Build,
        *,
        job: str,
        checkpoint: Callable[[str], str],
    ) -> None:
        """Prepare the session; nothing is built or started.

        Args:
            spark: the session.
            build: the author's function.
            job: id of the job, and name of the query unless the script gives it one.
            checkpoint: URI of the checkpoint of a query of that name.
        """
        self._spark = spark
        self._build = build
        self._job = job
        self._checkpoint = checkpoint
        self._query: StreamingQuery | None = None
        self._plan: DriverPlan | None = None
        self._progress = ProgressCounter()
        for name, value in SESSION.items():
            spark.conf.set(name, value)

    @property
    def plan(self) -> DriverPlan | None:
        """The plan that the query was started with; None if it was ended, or never started."""
        return self._plan

    def runs_on(self, plan: DriverPlan) -> bool:
        """Whether the query runs and need not be restarted for a plan."""
        return plan.runs_like(self._plan)

    def build(self, plan: DriverPlan) -> Writer:
        """Let the author's function make the query, or the batch, for a plan.

        Raises:
            AdaptiveJobError: it returned something else than a writer.
            Exception: whatever the function raises.
        """
        self._spark.conf.set("spark.sql.shuffle.partitions", str(plan.state_partitions))
        return require_writer(self._build(self._spark, dict(plan.parallelism)), _name(self._build))

    def start(self, writer: DataStreamWriter, plan: DriverPlan) -> None:
        """Start what `build` returned. Raises what Spark raises, an `AnalysisException` say."""
        name = _query_name(writer) or self._job
        self._query = writer.queryName(name).option("checkpointLocation", self._checkpoint(name)).start()
        self._plan = plan
        self._progress.begin(name, _trigger_interval_ms(self._query))

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End the query at a batch boundary; see `BatchBoundary`. Without a query that was done already."""
        if self._query is None or self._plan is None:
            return True
        exact = BatchBoundary(self._spark, self._query, pause=pause).end(timeout_s)
        self._over()
        return exact

    def halt(self) -> None:
        """Stop at once whatever query runs in the session, also those that the script started itself."""
        for query in self._spark.streams.active:
            query.stop()
        self._over()

    def triggered(self, timeout_s: float) -> bool:
        """Whether the first trigger of this run has begun; waits for it so long. False for a query that has failed.

        The query's thread begins it as soon as it is initialized, whatever the trigger's interval.
        """
        if self._query is None:
            return False
        execution = self._query._jsq.streamingQuery()
        try:
            execution.awaitInitialization(max(1, round(timeout_s * 1000)))
        except Py4JError:  # what ended the query; see `failure`
            return False
        return bool(execution.state().get() != scala_object(self._spark, f"{RUNTIME}.INITIALIZING"))

    def ended(self) -> bool:
        """Whether the query has ended without being told to."""
        return self._plan is not None and self._query is not None and not self._query.isActive

    def failure(self) -> FailureReport | None:
        """Why the query ended, None if it runs or nothing went wrong."""
        if self._query is None:
            return None
        exception = self._query._jsq.exception()
        return report_throwable(exception.get(), self._query.name) if exception.isDefined() else None

    def close(self) -> None:
        """Let go of a query that has ended without being told to."""
        self._over()

    def reports(self) -> tuple[QueryReport, ...]:
        """Progress of the query."""
        self._follow()
        report = self._progress.report
        return () if report is None else (replace(report, idle=self._is_idle()),)

    def stateful_run(self) -> StatefulRun | None:
        """What runs, None if it keeps no state or has not committed a batch yet."""
        self._follow()
        report, partitions = self._progress.report, self._progress.state_partitions
        if self._query is None or self._plan is None or report is None or partitions is None:
            return None
        return StatefulRun(run_id=str(self._query.runId), batch_id=report.batch_id, state_partitions=partitions)

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex in force.

        A checkpoint keeps the number of state partitions with which it was begun. If that is less than planned, no
        stateful vertex has more subtasks; which vertices are stateful is unknown here, so all are reported so.
        """
        if self._plan is None:
            return {}
        partitions, planned = self._progress.state_partitions, self._plan.state_partitions
        most = partitions if partitions is not None and partitions < planned else None
        return {name: count if most is None else min(count, most) for name, count in self._plan.parallelism.items()}

    def _is_idle(self) -> bool:
        query = self._query
        return query is not None and query.isActive and not query.status["isTriggerActive"]

    def _over(self) -> None:
        self._follow()
        self._progress.end()
        self._plan = None

    def _follow(self) -> None:
        query = self._query
        if query is not None:
            self._progress.follow(query.lastProgress, lambda: query.recentProgress)


def require_writer(returned: object, name: str) -> Writer:
    """What the author's function of that name returned, if it is what it should be.

    Raises:
        TypeError: it is not; says what is, and what to do.
    """
    if isinstance(returned, Writer):
        return returned
    hint = "return df.writeStream... of a streaming DataFrame, not started, or df.write... of a batch, not saved"
    if isinstance(returned, StreamingQuery):
        returned.stop()
        raise AdaptiveJobError(f"{name}() started its query: {hint}; the runtime starts it")
    raise AdaptiveJobError(f"{name}() returned {type(returned).__name__}: {hint}")


def _name(build: Any) -> str:
    return getattr(build, "__name__", type(build).__name__)


def _trigger_interval_ms(query: StreamingQuery) -> int | None:
    trigger = query._jsq.streamingQuery().trigger()
    return int(trigger.intervalMs()) if trigger.getClass().getSimpleName() == "ProcessingTimeTrigger" else None


def _query_name(writer: DataStreamWriter) -> str | None:
    options = writer._jwrite.getClass().getDeclaredField("extraOptions")
    options.setAccessible(True)
    name = options.get(writer._jwrite).get("queryName")
    return str(name.get()) if name.isDefined() else None
