"""The streaming queries of the job: built by the build function, started on a plan, and ended at a batch boundary.

The queries share the slots by Spark's FAIR pools: other queries use the slots that a query leaves free, and a query below its share gets the next free
slot. Spark stops no task for a share, and no query owns a slot, because the minimum share (`minShare`) is 0.

The module uses the JVM: `org.apache.spark.scheduler.Pool` under the `rootPool` of the task scheduler. The weight of a
pool is fixed, so a pool with another weight of the same name replaces it. Each stage looks up its pool by name when it
is submitted: running stages stay in the old pool, and new stages use the new pool.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, PreparedQuery
from airflow_adaptive.job.control.interfaces import QueryStillRunsError, StateRepartitioner
from airflow_adaptive.job.queries.batch_boundary import end_at_boundary
from airflow_adaptive.job.queries.job_query import JobQuery, StreamingQueries, boundaries, halt_session, stop_all
from airflow_adaptive.job.queries.real_time_mode import RealTimeMode
from airflow_adaptive.job.queries.sources.query_sources import require_known_topics
from airflow_adaptive.job.queries.warm_up import BATCH_TIMEOUT_S, may_read, plan_of, warm_up
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
from airflow_adaptive.job.state.checkpoint_files import require_sound_checkpoint
from airflow_adaptive.job.state.repartition import RepartitionError

log = logging.getLogger(__name__)

HALT_TIMEOUT_MS: Final = 10_000
"""Time in milliseconds for which an immediate stop waits for the thread of a query."""

MAX_PLANS: Final = 4096
"""Maximum length of the plans of all queries in a status, in characters. Longer ones are not reported."""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

SESSION: Final = {
    # Keep the number of tasks of each vertex that the plan specifies.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.stopTimeout": str(HALT_TIMEOUT_MS),
}


def require_startable(spark: SparkSession, writer: DataStreamWriter, checkpoint: str) -> None:
    """Require that a query can start from its checkpoint: the files are complete, and its topics are the same."""
    require_sound_checkpoint(spark, writer, checkpoint)
    require_known_topics(spark, writer, checkpoint, log.warning)


class JobQueries(StreamingQueries):
    """All queries of the job, which run again with each new plan in the same session."""

    def __init__(
        self,
        spark: SparkSession,
        build: Build,
        *,
        job: str,
        checkpoint: Callable[[str], str],
        repartition: StateRepartitioner,
        require_checkpoint: Callable[[SparkSession, DataStreamWriter, str], None] = require_startable,
    ) -> None:
        """Configure the session; nothing is built or started. `checkpoint` returns the URI of a query's checkpoint."""
        super().__init__(spark, job)
        self._build = build
        self._checkpoint = checkpoint
        self._repartition = repartition
        self._require_checkpoint = require_checkpoint
        self._pools = FairPools(spark)
        self._queries: dict[str, JobQuery] = {}
        self._real_time = RealTimeMode(spark, checkpoint, repartition)
        self._planned: PlannedParallelism | None = None
        self._plans: Mapping[str, tuple[str, ...]] = {}
        self._ensured: dict[str, int | None] = {}
        """Number of state partitions for which this driver has prepared the checkpoint of a query; None: unchanged."""
        self._checked: Mapping[str, int] = {}
        """Number of state partitions for which the newest build has checked a query that ran. The check reads all files of the state."""
        for name, value in SESSION.items():
            spark.conf.set(name, value)

    def _known(self) -> Sequence[JobQuery]:
        return list(self._queries.values())

    _running = _known

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        return None if self._planned is None else tuple(sorted(self._planned.vertices_read))

    @property
    def gangs(self) -> Mapping[str, int]:
        return self._real_time.gangs

    def can_adopt(self, plan: DriverPlan) -> bool:
        return self._plan is not None and self._plan.query_version == plan.query_version

    def adopt(self, plan: DriverPlan) -> None:
        self._set_pool_weights(plan)  # for the next stages
        self._plan = plan

    def build(self, plan: DriverPlan) -> Writers:
        function = function_name(self._build)
        planned = PlannedParallelism(plan.parallelism)
        writers = require_writers(self._call_build(planned, plan), function, self._job)
        require_same_queries(writers if isinstance(writers, dict) else (), list(self._queries), function)
        if isinstance(writers, dict):
            self._real_time.accept(writers, plan)
            self._checked = self._check_state(plan, writers)
            if not self._plans:  # of the first build only, because a plan takes hundreds of calls of the JVM
                plans = {name: plan_of(self._spark, writer) for name, writer in writers.items()}
                self._plans = plans if len(str(plans)) <= MAX_PLANS else dict.fromkeys(plans, ())
        if self.gangs:
            planned.vertices_read.update(planned)  # by the driver: the partitions follow the slots of all vertices
        self._planned = planned
        return writers

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        """See `interfaces.Workload`. A query in Real-Time Mode, or with other sources, is only built."""
        writers = self.build(plan)
        if not isinstance(writers, dict):
            return ()
        deadline = time.monotonic() + BATCH_TIMEOUT_S
        found = (self._warm_up(name, writers[name], plan, deadline, has_executors=has_executors) for name in writers)
        return tuple(replace(it, plan=self._plans.get(it.name, ())) for it in found)

    def _warm_up(
        self, name: str, writer: DataStreamWriter, plan: DriverPlan, deadline: float, *, has_executors: bool
    ) -> PreparedQuery:
        left = deadline - time.monotonic()
        if self.gangs:
            return PreparedQuery(name=name, unchecked="no copy of a query in Real-Time Mode is run")
        if left <= 0:
            return PreparedQuery(name=name, unchecked="the copies of the other queries have taken all the time")
        if not may_read(self._spark, writer):
            return PreparedQuery(name=name, unchecked="no copy is run, because it might take rows from its sources")
        self._spark.conf.set(SHUFFLE_PARTITIONS, str(self._real_time.partitions(name, plan)))
        found = warm_up(self._spark, writer, self._checkpoint(name), has_executors=has_executors, timeout_s=left)
        if plan.repartition or not found.state_before:
            return found
        kept = found.state_before[0].partitions
        return replace(found, state_after=tuple(replace(it, partitions=kept) for it in found.state_after))

    def is_prepared(self, writers: Streams, plan: DriverPlan) -> bool:
        """See `interfaces.Workload`. A checkpoint stays prepared until the planned number of its state partitions changes."""
        return all(
            name in self._ensured and self._ensured[name] == self._planned_partitions(name, plan) for name in writers
        )

    def prepare(self, writers: Streams, plan: DriverPlan) -> None:
        for name, writer in writers.items():
            self._ensured.pop(name, None)
            self._require_checkpoint(self._spark, writer, self._checkpoint(name))
            self._spark.conf.set(SHUFFLE_PARTITIONS, str(self._real_time.partitions(name, plan)))
            self._ensure_partitions(name, plan, writer)
            self._ensured[name] = self._planned_partitions(name, plan)

    def start(self, writers: Streams, plan: DriverPlan) -> None:
        self._queries = {
            name: self._queries.get(name) or JobQuery(self._spark, name, self._checkpoint(name)) for name in writers
        }
        self._set_pool_weights(plan)
        try:
            for name, query in self._queries.items():
                self._pools.use(name)
                self._spark.conf.set(SHUFFLE_PARTITIONS, str(self._real_time.partitions(name, plan)))
                query.plan = self._plans.get(name, ())
                query.start(writers[name])
        except Exception as error:
            self._stop_queries(error)
            raise
        finally:
            self._pools.use(DEFAULT)
        self._plan = plan

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        if self._plan is None:
            return True
        exact = end_at_boundary(boundaries(self._known()), timeout_s, pause)
        self.close()
        return exact

    def halt(self) -> bool:
        """Cancel all Spark jobs, and stop all queries of the session, also those that the script started itself."""
        stopped = halt_session(self._spark)
        self.close()
        return stopped

    def has_ended(self) -> bool:
        if self._plan is None:
            return False
        ended = [query for query in self._queries.values() if not query.active()]
        return len(ended) == len(self._queries) or any(query.failure() for query in ended)

    def failure(self) -> FailureReport | None:
        return next(filter(None, (query.failure() for query in self._queries.values())), None)

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
        """Repartition the state of a query. If that is impossible, a start with the current number is better than no start."""
        checkpoint, wanted = self._checkpoint(name), self._planned_partitions(name, plan)
        if wanted is not None:
            try:
                if self._checked.get(name) != wanted:
                    self._repartition.check(checkpoint, wanted, writer)
                self._repartition.ensure(checkpoint, wanted, writer.queryName(name))
            except RepartitionError as error:
                log.warning("%s; query %s keeps the current number of state partitions", error, name)
            else:
                return
        self._repartition.ensure(checkpoint, None, writer.queryName(name))

    def _check_state(self, plan: DriverPlan, writers: Streams) -> Mapping[str, int]:
        """Check whether a repartition would fail, while the queries still run. Returns what was checked. Raises `RepartitionError`."""
        if not plan.repartition or self._plan is None:
            return {}
        wanted = {name: self._real_time.partitions(name, plan) for name in self._queries}
        for name, partitions in wanted.items():
            if self._queries[name].state_partitions != partitions:
                self._repartition.check(self._checkpoint(name), partitions, writers[name])
        return wanted

    def _set_pool_weights(self, plan: DriverPlan) -> None:
        self._pools.set_weights({name: plan.pool_weights.get(name, 1) for name in self._queries})

    def _stop_queries(self, error: Exception) -> None:
        """Stop all queries, because not all of them started. Raises `QueryStillRunsError` from the given error."""
        stopped = stop_all(self._queries.values())
        self.close()
        if not stopped:
            raise QueryStillRunsError(f"not all of the queries {list(self._queries)} have stopped") from error

    def _planned_partitions(self, name: str, plan: DriverPlan) -> int | None:
        """Return the number of state partitions of a query in a plan, or None to keep the current number."""
        return self._real_time.partitions(name, plan) if plan.repartition else None


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
        """Give each query a pool of its name and weight, at least 1. A single query stays in the default pool."""
        self._remove_retired()
        if len(weights) > 1:
            for name, weight in weights.items():
                self._set_weight(name, max(1, weight))

    def use(self, name: str) -> None:
        """Run the queries that this thread starts from now on in the pool of that name, or else in the default pool."""
        self._context.setLocalProperty(POOL, name if name in self._pools else DEFAULT)

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
        """Remove retired pools without stages. `removeSchedulable` would also remove the name of their successor."""
        for pool in [pool for pool in self._retired if pool.schedulableQueue().isEmpty()]:
            self._root().schedulableQueue().remove(pool)
            self._retired.remove(pool)

    def _root(self) -> Any:
        return self._context._jsc.sc().taskScheduler().rootPool()
