"""The streaming queries of the job: built by the build function, started on a plan, and ended at a batch boundary.

The queries share the slots by Spark's FAIR pools: other queries use the slots that a query leaves free, and a query below its share gets the next free
slot. Spark stops no task for a share, and no query owns a slot, because the minimum share (`minShare`) is 0.

The module uses the JVM: `org.apache.spark.scheduler.Pool` under the `rootPool` of the task scheduler. The weight of a
pool is fixed, so a pool with another weight of the same name replaces it. Each stage looks up its pool by name when it
is submitted: running stages stay in the old pool, and new stages use the new pool.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.control.interfaces import QueryStillRunsError, StatefulRun, StateRepartitioner
from airflow_adaptive.job.queries.batch_boundary import act_between_batches, end_at_boundary
from airflow_adaptive.job.queries.job_query import (
    JobQuery,
    boundaries,
    halt_session,
    largest_stateful_run,
    stop_all,
    wait_for_first_triggers,
)
from airflow_adaptive.job.queries.real_time.real_time_mode import RealTimeMode
from airflow_adaptive.job.queries.sources.source_report import limit_topics
from airflow_adaptive.job.queries.writers import (
    HINT,
    AdaptiveJobError,
    Build,
    PlannedParallelism,
    Streams,
    Writers,
    function_name,
    require_same_queries,
    require_writers,
    starts_rejected,
)
from airflow_adaptive.job.spark_internals import spark_class
from airflow_adaptive.job.state.repartition import RepartitionError

log = logging.getLogger(__name__)

HALT_TIMEOUT_MS: Final = 10_000
"""Time in milliseconds for which an immediate stop waits for the thread of a query."""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

SESSION: Final = {
    # Keep the number of tasks of each vertex that the plan specifies.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.stopTimeout": str(HALT_TIMEOUT_MS),
}


class JobQueries:
    """All queries of the job, which run again with each new plan in the same session."""

    def __init__(
        self,
        spark: SparkSession,
        build: Build,
        *,
        job: str,
        checkpoint: Callable[[str], str],
        repartition: StateRepartitioner,
        require_checkpoint: Callable[[DataStreamWriter, str], None],
    ) -> None:
        """Configure the session; nothing is built or started.

        Args:
            spark: session of the driver.
            build: build function of the script.
            job: id of the job, and name of a single query unless the script gives it one.
            checkpoint: returns the URI of a query's checkpoint.
            repartition: repartitions the state in the checkpoints.
            require_checkpoint: raises an error if a query cannot start from its checkpoint.
        """
        self._spark = spark
        self._build = build
        self._job = job
        self._checkpoint = checkpoint
        self._repartition = repartition
        self._require_checkpoint = require_checkpoint
        self._pools = FairPools(spark)
        self._queries: dict[str, JobQuery] = {}
        self._real_time = RealTimeMode(spark, checkpoint, repartition)
        self._plan: DriverPlan | None = None
        self._planned: PlannedParallelism | None = None
        self._ensured: dict[str, int | None] = {}
        """Number of state partitions for which this driver has prepared the checkpoint of a query; None: unchanged."""
        for name, value in SESSION.items():
            spark.conf.set(name, value)

    @property
    def plan(self) -> DriverPlan | None:
        """The active plan, or None if no query was started or the queries were ended."""
        return self._plan

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """Vertices whose parallelism the build function has read since its last call, or None before the first call."""
        return None if self._planned is None else tuple(sorted(self._planned.vertices_read))

    @property
    def gangs(self) -> Mapping[str, int]:
        """Slots that each query in Real-Time Mode needs at the same time."""
        return self._real_time.gangs

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Return whether the queries run and a plan needs no restart of them."""
        return self._plan is not None and self._plan.query_version == plan.query_version

    def adopt(self, plan: DriverPlan) -> None:
        """Make a plan active without a restart. The next stages use its pool weights."""
        self._set_pool_weights(plan)
        self._plan = plan

    def build(self, plan: DriverPlan) -> Writers:
        """Call the build function for a plan, while running queries continue.

        Raises:
            AdaptiveJobError: the function returned something other than writers, returned other queries, or started a
                query.
            RepartitionError: the state of a running query cannot have the number of partitions of the plan.
            MissingSlotsError: the plan has too few slots for the queries.
            Exception: any exception of the function.
        """
        function = function_name(self._build)
        planned = PlannedParallelism(plan.parallelism)
        writers = require_writers(self._call_build(planned, plan), function, self._job)
        require_same_queries(writers if isinstance(writers, dict) else (), list(self._queries), function)
        if isinstance(writers, dict):
            self._real_time.accept(writers, plan)
            self._check_state(plan, writers)
        if self.gangs:
            planned.vertices_read.update(planned)  # by the driver: the partitions follow the slots of all vertices
        self._planned = planned
        return writers

    def is_prepared(self, writers: Streams, plan: DriverPlan) -> bool:
        """Return whether `prepare` has nothing to do.

        A checkpoint stays prepared until the planned number of its state partitions changes.
        """
        return all(
            name in self._ensured and self._ensured[name] == self._planned_partitions(name, plan) for name in writers
        )

    def prepare(self, writers: Streams, plan: DriverPlan) -> None:
        """Repartition the state of each query as planned, and complete a repartition of an earlier driver.

        Raises:
            DamagedCheckpointError: files of the checkpoint are missing or damaged.
            RepartitionError: the query cannot use the state.
            TopicRecreatedError: the query has read a topic that was created again.
        """
        for name, writer in writers.items():
            self._ensured.pop(name, None)
            self._require_checkpoint(writer, self._checkpoint(name))
            self._spark.conf.set(SHUFFLE_PARTITIONS, str(self._real_time.partitions(name, plan)))
            self._ensure_partitions(name, plan, writer)
            self._ensured[name] = self._planned_partitions(name, plan)

    def start(self, writers: Streams, plan: DriverPlan) -> None:
        """Start the writers that `build` returned, all or none.

        Raises the exceptions of Spark, such as `AnalysisException`.
        """
        known = self._queries
        self._queries = {
            name: known.get(name) or JobQuery(self._spark, name, self._checkpoint(name)) for name in writers
        }
        self._set_pool_weights(plan)
        try:
            for name, query in self._queries.items():
                self._pools.use(name)
                self._spark.conf.set(SHUFFLE_PARTITIONS, str(self._real_time.partitions(name, plan)))
                query.start(writers[name])
        except Exception as error:
            self._stop_queries(error)
            raise
        finally:
            self._pools.use_default()
        self._plan = plan

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End each query at its batch boundary; see `end_at_boundary`.

        Without running queries nothing is left to do.
        """
        if self._plan is None:
            return True
        exact = end_at_boundary(boundaries(self._queries.values()), timeout_s, pause)
        self._end_runs()
        return exact

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Call `act` while no query runs a batch; see `batch_boundary.act_between_batches`."""
        return act_between_batches(boundaries(self._queries.values()), timeout_s, pause, act)

    def halt(self) -> bool:
        """Cancel all Spark jobs, and stop all queries of the session, also those that the script started itself."""
        stopped = halt_session(self._spark)
        self._end_runs()
        return stopped

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Return whether the first trigger of each query has begun; wait for it up to the timeout.

        False after a failure.
        """
        return bool(self._queries) and wait_for_first_triggers(self._queries.values(), timeout_s)

    def has_ended(self) -> bool:
        """Return whether all queries have ended without a request, or one has failed."""
        if self._plan is None:
            return False
        ended = [query for query in self._queries.values() if not query.active()]
        return len(ended) == len(self._queries) or any(query.failure() for query in ended)

    def failure(self) -> FailureReport | None:
        """Return the failure of the first failed query, or None."""
        return next(filter(None, (query.failure() for query in self._queries.values())), None)

    def close(self) -> None:
        """Release queries that have ended without a request."""
        self._end_runs()

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the progress of each query."""
        return limit_topics(list(filter(None, (query.report() for query in self._queries.values()))))

    def stateful_run(self) -> StatefulRun | None:
        """Return the run with the most state partitions, whose tasks the balancer spreads, or None."""
        return None if self._plan is None else largest_stateful_run(self._queries.values())

    def parallelism(self) -> dict[str, int]:
        """Return the effective parallelism of each vertex.

        A checkpoint keeps its number of state partitions. If the number is smaller than planned, no stateful vertex of
        the query has more subtasks. The driver knows neither which vertices are stateful nor, with several queries, to
        which query a vertex belongs, unless the vertex has the name of its query. Therefore the result is smaller than
        planned only where it must be.
        """
        if self._plan is None:
            return {}
        return {name: self._capped(name, count, self._plan) for name, count in self._plan.parallelism.items()}

    def _capped(self, vertex: str, count: int, plan: DriverPlan) -> int:
        of = [vertex] if vertex in self._queries else list(self._queries)
        kept = [self._queries[name].state_partitions for name in of]
        caps = [
            partitions
            for name, partitions in zip(of, kept, strict=True)
            if partitions is not None and partitions < self._real_time.partitions(name, plan)
        ]
        return min(count, max(caps)) if caps and len(caps) == len(of) else count

    def _call_build(self, planned: PlannedParallelism, plan: DriverPlan) -> object:
        """Call the build function, which must not start a query."""
        self._spark.conf.set(SHUFFLE_PARTITIONS, str(plan.partitions_of(self._job)))
        function = function_name(self._build)
        try:
            with starts_rejected(function):
                return self._build(self._spark, planned)
        except SystemExit as error:
            raise AdaptiveJobError(
                f"{function}() called sys.exit({error.code!r}): {HINT}; raise an exception for an error"
            ) from error

    def _ensure_partitions(self, name: str, plan: DriverPlan, writer: DataStreamWriter) -> None:
        """Repartition the state of a query, unless that is impossible.

        The driver rejects an impossible number while queries run. Without running queries, a start with the current number is better than
        no start.
        """
        checkpoint, wanted = self._checkpoint(name), self._planned_partitions(name, plan)
        if wanted is not None:
            try:
                self._repartition.check(checkpoint, wanted, writer)
                self._repartition.ensure(checkpoint, wanted, writer.queryName(name))
            except RepartitionError as error:
                log.warning("%s; query %s keeps the current number of state partitions", error, name)
            else:
                return
        self._repartition.ensure(checkpoint, None, writer.queryName(name))

    def _check_state(self, plan: DriverPlan, writers: Streams) -> None:
        """Check whether a repartition would fail, while the queries still run. Raises `RepartitionError`."""
        if not plan.repartition or self._plan is None:
            return
        for name, query in self._queries.items():
            partitions = self._real_time.partitions(name, plan)
            if query.state_partitions != partitions:
                self._repartition.check(self._checkpoint(name), partitions, writers[name])

    def _set_pool_weights(self, plan: DriverPlan) -> None:
        self._pools.set_weights({name: plan.pool_weights.get(name, 1) for name in self._queries})

    def _stop_queries(self, error: Exception) -> None:
        """Stop all queries, because not all of them started. Raises `QueryStillRunsError` from the given error."""
        stopped = stop_all(self._queries.values())
        self._end_runs()
        if not stopped:
            raise QueryStillRunsError(f"not all of the queries {list(self._queries)} have stopped") from error

    def _planned_partitions(self, name: str, plan: DriverPlan) -> int | None:
        """Return the number of state partitions of a query in a plan, or None to keep the current number."""
        return self._real_time.partitions(name, plan) if plan.repartition else None

    def _end_runs(self) -> None:
        for query in self._queries.values():
            query.end_run()
        self._plan = None


POOL: Final = "spark.scheduler.pool"
"""Local property of a thread. The thread of a query inherits the property from the thread that started the query."""

DEFAULT: Final = "default"
"""The pool of threads without a pool (`FairSchedulableBuilder`)."""

MIN_SHARE: Final = 0
"""`minShare` of a pool."""


class FairPools:
    """The pools of the queries of one session; a single query has no pool."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._pools: dict[str, Any] = {}
        self._retired: list[Any] = []

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Give each query a pool of its name and weight. A single query stays in the default pool.

        Args:
            weights: weights of all queries of the job, by name; a weight below 1 counts as 1.
        """
        self._remove_retired()
        if len(weights) > 1:
            for name, weight in weights.items():
                self._set_weight(name, max(1, weight))

    def use(self, name: str) -> None:
        """Run the queries that this thread starts from now on in the pool of that name, if it exists."""
        self._context.setLocalProperty(POOL, name if name in self._pools else DEFAULT)

    def use_default(self) -> None:
        """Let this thread use the default pool from now on."""
        self._context.setLocalProperty(POOL, DEFAULT)

    def _set_weight(self, name: str, weight: int) -> None:
        old = self._pools.get(name)
        if old is not None and old.weight() == weight:
            return
        fair = spark_class(self._spark, "SchedulingMode").FAIR()
        pool = spark_class(self._spark, "Pool")(name, fair, MIN_SHARE, weight)
        self._root().addSchedulable(pool)  # the new pool replaces the old one under this name
        self._pools[name] = pool
        if old is not None:
            self._retired.append(old)

    def _remove_retired(self) -> None:
        """Remove retired pools without stages.

        `removeSchedulable` would also remove the name of their successor.
        """
        for pool in [pool for pool in self._retired if pool.schedulableQueue().isEmpty()]:
            self._root().schedulableQueue().remove(pool)
            self._retired.remove(pool)

    def _root(self) -> Any:
        return self._context._jsc.sc().taskScheduler().rootPool()
