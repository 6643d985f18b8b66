"""The job's streaming queries: built together by the author's function, started on a plan, ended at one boundary."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Set
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.control.interfaces import StatefulRun, StateRepartitioner
from airflow_adaptive.job.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.queries.batch_boundary import BatchBoundary, act_between_batches, end_at_boundary
from airflow_adaptive.job.queries.fair_pools import FairPools
from airflow_adaptive.job.queries.job_query import JobQuery
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
)
from airflow_adaptive.job.state.repartition import RepartitionError

log = logging.getLogger(__name__)

HALT_TIMEOUT_MS: Final = 10_000
"""How long a query that is stopped at once may take to let go of its thread."""

SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

SESSION: Final = {
    # A vertex keeps the number of tasks that its plan promises.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.streaming.stopTimeout": str(HALT_TIMEOUT_MS),
}


class JobQueries:
    """All queries of the job, run again with each new plan in the same session."""

    def __init__(
        self,
        spark: SparkSession,
        build: Build,
        *,
        job: str,
        checkpoint: Callable[[str], str],
        repartition: StateRepartitioner,
    ) -> None:
        """Prepare the session; nothing is built or started.

        Args:
            spark: the session.
            build: the author's function.
            job: id of the job, and name of a single query unless the script gives it one.
            checkpoint: URI of the checkpoint of a query of that name.
            repartition: of the state in the checkpoints.
        """
        self._spark = spark
        self._build = build
        self._job = job
        self._checkpoint = checkpoint
        self._repartition = repartition
        self._pools = FairPools(spark)
        self._queries: dict[str, JobQuery] = {}
        self._plan: DriverPlan | None = None
        self._planned: PlannedParallelism | None = None
        self._ensured: dict[str, int | None] = {}
        """For which partitions the checkpoint of a query was settled in this driver, None for whatever its state has."""
        for name, value in SESSION.items():
            spark.conf.set(name, value)

    @property
    def plan(self) -> DriverPlan | None:
        """The plan that is in force; None if the queries were ended, or never started."""
        return self._plan

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """Vertices whose parallelism the author's function asked for since it was called last, None before."""
        return None if self._planned is None else tuple(sorted(self._planned.vertices_read))

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Whether the queries run and need not be restarted for a plan."""
        return self._plan is not None and self._plan.query_version == plan.query_version

    def adopt(self, plan: DriverPlan) -> None:
        """Take a plan that `runs_on` for the one that is in force. The stages to come share as it has it."""
        self._set_pool_weights(plan)
        self._plan = plan

    def build(self, plan: DriverPlan) -> Writers:
        """Let the author's function make the queries, or the batch, for a plan; what runs goes on meanwhile.

        Raises:
            AdaptiveJobError: it returned something else than writers, or other queries than before, or started one.
            RepartitionError: the state of a query that runs can't have the plan's partitions.
            Exception: whatever the function raises.
        """
        function = function_name(self._build)
        planned = PlannedParallelism(plan.parallelism)
        writers = require_writers(self._call_build(planned, plan), function, self._job)
        require_same_queries(writers if isinstance(writers, dict) else (), list(self._queries), function)
        if isinstance(writers, dict):
            self._check_state(plan, writers)
        self._planned = planned
        return writers

    def is_prepared(self, writers: Streams, plan: DriverPlan) -> bool:
        """Whether `prepare` has nothing to do: a checkpoint stays settled until its state is to have other partitions."""
        return all(name in self._ensured and self._ensured[name] == _planned_partitions(name, plan) for name in writers)

    def prepare(self, writers: Streams, plan: DriverPlan) -> None:
        """Give the state of each query the partitions of its plan, and finish what an earlier driver had begun of that.

        Raises:
            RepartitionError: the state can't be used by the query.
        """
        for name, writer in writers.items():
            self._ensured.pop(name, None)
            self._spark.conf.set(SHUFFLE_PARTITIONS, str(plan.partitions_of(name)))
            self._repartition.ensure(
                self._checkpoint(name), self._possible_partitions(name, plan, writer), writer.queryName(name)
            )
            self._ensured[name] = _planned_partitions(name, plan)

    def start(self, writers: Streams, plan: DriverPlan) -> None:
        """Start what `build` returned, all or none. Raises what Spark raises, an `AnalysisException` say."""
        known = self._queries
        self._queries = {
            name: known.get(name) or JobQuery(self._spark, name, self._checkpoint(name)) for name in writers
        }
        self._set_pool_weights(plan)
        try:
            for name, query in self._queries.items():
                self._pools.use(name)
                self._spark.conf.set(SHUFFLE_PARTITIONS, str(plan.partitions_of(name)))
                query.start(writers[name])
        except Exception:
            self._stop_queries()
            raise
        finally:
            self._pools.use_default()
        self._plan = plan

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End each query at its batch boundary; see `end_at_boundary`. Without any that was done already."""
        if self._plan is None:
            return True
        exact = end_at_boundary(self._boundaries(), timeout_s, pause)
        self._end_runs()
        return exact

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Do something while no query runs a batch; see `act_between_batches`."""
        return act_between_batches(self._boundaries(), timeout_s, pause, act)

    def halt(self) -> None:
        """Stop at once whatever query runs in the session, also those that the script started itself."""
        for query in self._spark.streams.active:
            query.stop()
        self._end_runs()

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Whether the first trigger of each query has begun; waits for them so long. False if one has failed."""
        deadline = time.monotonic() + timeout_s
        return bool(self._queries) and all(
            query.wait_for_first_trigger(max(0.0, deadline - time.monotonic())) for query in self._queries.values()
        )

    def has_ended(self) -> bool:
        """Whether the job is over without being told to: all queries have ended, or one has failed."""
        if self._plan is None:
            return False
        ended = [query for query in self._queries.values() if not query.active()]
        return len(ended) == len(self._queries) or any(query.failure() for query in ended)

    def failure(self) -> FailureReport | None:
        """Why the first query that failed did, None if nothing went wrong."""
        return next(filter(None, (query.failure() for query in self._queries.values())), None)

    def close(self) -> None:
        """Let go of queries that have ended without being told to."""
        self._end_runs()

    def reports(self) -> tuple[QueryReport, ...]:
        """Progress of each query."""
        return tuple(filter(None, (query.report() for query in self._queries.values())))

    def stateful_run(self) -> StatefulRun | None:
        """What runs with the most state partitions: its tasks are the ones to spread. None without state or batch."""
        runs = filter(None, (query.stateful_run() for query in self._queries.values()))
        return None if self._plan is None else max(runs, key=lambda run: run.state_partitions, default=None)

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex in force.

        A checkpoint keeps the number of state partitions with which it was begun. If that is less than planned, no
        stateful vertex of its query has more subtasks. Which vertices are stateful is unknown here, and of several
        queries also whose they are, unless one has the name of its query: a number is less than planned only if it
        must be.
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
            if partitions is not None and partitions < plan.partitions_of(name)
        ]
        return min(count, max(caps)) if caps and len(caps) == len(of) else count

    def _call_build(self, planned: PlannedParallelism, plan: DriverPlan) -> object:
        """The author's function. A query that it starts is stopped, whether it returns or raises; raises that, too."""
        self._spark.conf.set(SHUFFLE_PARTITIONS, str(plan.partitions_of(self._job)))
        before = {query.runId for query in self._spark.streams.active}
        try:
            returned = self._build(self._spark, planned)
        except SystemExit as error:
            called = f"{function_name(self._build)}() called sys.exit({error.code!r})"
            raise AdaptiveJobError(f"{called}: {HINT}; raise an exception if it can't") from error
        finally:
            started = self._stop_others(before)
        if started:
            names = ", ".join(repr(name) for name in started)
            raise AdaptiveJobError(
                f"{function_name(self._build)}() started a query itself ({names}): {HINT}; the runtime starts it"
            )
        return returned

    def _stop_others(self, runs: Set[str]) -> list[str | None]:
        """Stop the queries of the session but these; the names of those stopped."""
        others = [query for query in self._spark.streams.active if query.runId not in runs]
        for query in others:
            query.stop()
        return [query.name for query in others]

    def _possible_partitions(self, name: str, plan: DriverPlan, writer: DataStreamWriter) -> int | None:
        """Partitions that the state of a query is to have; None where it keeps those that it has, or can't have others.

        Queries that run are refused such a plan. Where none runs, in a new driver, going on is better than not to start.
        """
        wanted = _planned_partitions(name, plan)
        try:
            if wanted is not None:
                self._repartition.check(self._checkpoint(name), wanted, writer)
        except RepartitionError as error:
            log.warning("%s; query %s goes on with those that its state has", error, name)
            return None
        return wanted

    def _check_state(self, plan: DriverPlan, writers: Streams) -> None:
        """Find out what a repartition would fail at while the queries still run. Raises `RepartitionError`."""
        if not plan.repartition or self._plan is None:
            return
        for name, query in self._queries.items():
            if query.state_partitions != plan.partitions_of(name):
                self._repartition.check(self._checkpoint(name), plan.partitions_of(name), writers[name])

    def _set_pool_weights(self, plan: DriverPlan) -> None:
        self._pools.set_weights({name: plan.pool_weights.get(name, 1) for name in self._queries})

    def _boundaries(self) -> list[BatchBoundary]:
        return [found for query in self._queries.values() if (found := query.boundary()) is not None]

    def _stop_queries(self) -> None:
        """None runs if not all do."""
        for query in self._queries.values():
            query.stop()
        self._end_runs()

    def _end_runs(self) -> None:
        for query in self._queries.values():
            query.end_run()
        self._plan = None


def _planned_partitions(name: str, plan: DriverPlan) -> int | None:
    """Partitions that the state of a query is to have by a plan; None: those that it has."""
    return plan.partitions_of(name) if plan.repartition else None
