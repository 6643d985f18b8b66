"""The queries of an ordinary script, which starts them itself: allowed, followed, ended at one boundary.

The script's threads and the control loop meet here. A query is started only between the loop's word that one may (`prepare`)
and its word that they have to end (`end`, `halt`); before, the script waits in its `start()`, afterwards that ends the script.
No plan needs queries that are built anew: executors come and go under them, as under those of a function that asks for no
parallelism (rescale tier 0). What takes more takes a new driver, in which the script runs from its beginning (tier 3).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.queries.batch_boundary import (
    CHECK_INTERVAL_S,
    BatchBoundary,
    act_between_batches,
    end_at_boundary,
)
from airflow_adaptive.job.queries.job_query import JobQuery
from airflow_adaptive.job.state.repartition import RepartitionError

FIRST_START_TIMEOUT_S: Final = 10.0
"""A plan is in force with the first query that the script has started, or so long after it may start one."""

HALT_TIMEOUT_S: Final = 10.0
"""How long a query that the script is just starting is waited for when all are stopped at once."""

NEVER_STARTED: Final = FailureReport(
    error_class="SCRIPT_WITHOUT_JOB",
    message="the script ended, and no query that it wanted to start has ever run",
    causes=("SCRIPT_WITHOUT_JOB",),
)


class ScriptStoppedError(SystemExit):
    """The script wants to start a query while its driver is being stopped: it ends here, in good order."""


class ScriptQueries:
    """See `interfaces.Workload`; what the control loop does not call, the script does."""

    def __init__(self, spark: SparkSession, *, job: str) -> None:
        """No query may be started yet.

        Args:
            spark: the session.
            job: id of the job, and name of a query that has none.
        """
        self._spark = spark
        self._job = job
        self._changed = threading.Condition()
        self._plan: DriverPlan | None = None
        self._closed = False
        self._end_requested = False
        self._halted = False
        self._starting = 0
        self._queries: list[JobQuery] = []
        self._queries_at_end: list[JobQuery] = []
        self._script_ended = False
        self._error: FailureReport | None = None

    # ---- the script ----

    def start_query(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Start a query of the script as soon as one may be started.

        Raises:
            ScriptStoppedError: none may be any more.
            Exception: what Spark raises.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._plan is not None or self._closed)
            if self._closed:
                self._raise_stopped()
            self._starting += 1
        try:
            query = start()
            with self._changed:
                self._track(query)
            return query
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

    def block_if_halted(self) -> None:
        """Keep a thread of the script whose query ended because this driver is outdated: the process ends in a moment."""
        with self._changed:
            self._changed.wait_for(lambda: not self._halted)

    def stop_queries(self) -> None:
        """The script stops its session: its queries end, as they would with that."""
        for query in self._running():
            query.stop()

    def finish(self, error: FailureReport | None) -> None:
        """The script has come to its end, with an error or without; queries that run now are waited for."""
        with self._changed:
            self._script_ended, self._error = True, error
            self._queries_at_end = self._running()
            self._changed.notify_all()

    def reject_starts(self) -> None:
        """No query may be started any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def failed(self) -> bool:
        """Whether the script has ended with an error: nothing can run in this process any more."""
        return self._script_ended and self._error is not None

    # ---- the control loop ----

    @property
    def plan(self) -> DriverPlan | None:
        """The plan in force; None before the script may start queries, and after they were ended."""
        return self._plan

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """The script asks for no vertex's parallelism: no plan needs other queries."""
        return ()

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Whether the queries can go on under a plan: they can, unless it wants their state in other partitions."""
        return self._plan is not None and not _repartitions(plan, self._plan)

    def adopt(self, plan: DriverPlan) -> None:
        """The executors of a plan are there."""
        self._plan = plan

    def build(self, plan: DriverPlan) -> DriverPlan:
        """Nothing is built here. Raises `RepartitionError`: the state of queries that run is to have other partitions."""
        if self._plan is not None:
            raise RepartitionError(
                f"the script starts its queries itself: the partitions of their state are its own, not {plan.state_partitions}; "
                "hand the queries to AdaptiveJob to have them repartitioned"
            )
        return plan

    def is_prepared(self, _: DriverPlan, __: DriverPlan) -> bool:
        """See `interfaces.Workload`: the state is the script's own."""
        return True

    def prepare(self, _: DriverPlan, __: DriverPlan) -> None:
        """There is nothing to do."""

    def start(self, _: DriverPlan, plan: DriverPlan) -> None:
        """Let the script start queries; return when it has started one, or with its end."""
        with self._changed:
            self._plan = plan
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._queries or self._script_ended, FIRST_START_TIMEOUT_S)

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """See `interfaces.Workload`."""
        return act_between_batches(_boundaries(self._running()), timeout_s, pause, act)

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End all queries, each at its boundary, for good. Without any a script that is over has ended by itself."""
        if self._plan is None:
            return True
        self.reject_starts()
        deadline = time.monotonic() + timeout_s
        while self._starting and time.monotonic() < deadline:
            pause(CHECK_INTERVAL_S)
        running = self._running()
        if self.has_ended() and not running:
            return True
        self._end_requested = True
        self._queries_at_end = self._queries_at_end or running
        exact = end_at_boundary(_boundaries(running), max(0.0, deadline - time.monotonic()), pause)
        self.close()
        return exact

    def halt(self) -> None:
        """Stop all queries at once; the script does not hear of it."""
        with self._changed:
            self._halted = self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._starting, HALT_TIMEOUT_S)
        for query in self._spark.streams.active:  # also one that was started a moment ago
            query.stop()
        self.stop_queries()  # also those of other sessions
        self.close()

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """See `interfaces.Workload`."""
        deadline = time.monotonic() + timeout_s
        return all(query.wait_for_first_trigger(max(0.0, deadline - time.monotonic())) for query in self._running())

    def has_ended(self) -> bool:
        """Whether the script has come to its end, untold: with an error, or with no query that still runs."""
        over = self._script_ended and not self._end_requested and not self._starting
        return over and (self._error is not None or not self._running())

    def close(self) -> None:
        """Let go of the queries."""
        for query in self._queries:
            query.end_run()
        self._plan = None

    def failure(self) -> FailureReport | None:
        """The script's error; else that of a query which failed when the script could not see to it any more."""
        failures = (query.failure() for query in self._queries_at_end)
        found = self._error or next(filter(None, failures), None)
        return NEVER_STARTED if found is None and self._script_ended and not self._queries else found

    def reports(self) -> tuple[QueryReport, ...]:
        """Progress of each query."""
        return tuple(filter(None, (query.report() for query in list(self._queries))))

    def stateful_run(self) -> StatefulRun | None:
        """What runs with the most state partitions."""
        runs = filter(None, (query.stateful_run() for query in self._running()))
        return max(runs, key=lambda run: run.state_partitions, default=None)

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex in force: as planned, but no more than the partitions of all state, if all queries keep some."""
        if self._plan is None:
            return {}
        kept = [query.state_partitions for query in self._running()]
        told = [partitions for partitions in kept if partitions is not None]
        cap = max(told) if told and len(told) == len(kept) else None
        return {name: count if cap is None else min(count, cap) for name, count in self._plan.parallelism.items()}

    def _raise_stopped(self) -> None:
        """No query is started any more: the script ends, or waits for the end of an outdated driver's process."""
        self._changed.wait_for(lambda: not self._halted)
        raise ScriptStoppedError(0)

    def _track(self, query: StreamingQuery) -> None:
        """Follow a new query, or the next run of one that has ended."""
        known = self._previous_run(query.name)
        if known is None:
            known = JobQuery(self._spark, query.name or self._free_name(), "")
            self._queries.append(known)
        known.track(query)

    def _previous_run(self, name: str | None) -> JobQuery | None:
        """A query that has ended and of which this is another run, as far as names tell."""
        ended = [query for query in self._queries if not query.active()]
        alike = [query for query in ended if (query.name == name if name else query.name.startswith(self._job))]
        return alike[0] if alike else None

    def _free_name(self) -> str:
        taken = {query.name for query in self._queries}
        names = (self._job if number == 1 else f"{self._job}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _running(self) -> list[JobQuery]:
        return [query for query in list(self._queries) if query.active()]


def _repartitions(plan: DriverPlan, before: DriverPlan) -> bool:
    return plan.repartition and dict(plan.state_partitions) != dict(before.state_partitions)


def _boundaries(queries: list[JobQuery]) -> list[BatchBoundary]:
    return [found for query in queries if (found := query.boundary()) is not None]
