"""The queries of an unmanaged script, which starts them itself: admitted, tracked, and ended at a batch boundary.

The threads of the script and the driver loop meet in this module. The script can start queries after the driver loop
has called `start`, and before the driver loop calls `end` or `halt`. Earlier, the script waits in its `start()`;
later, its `start()` ends the script. No plan requires new queries: executors are added and removed under the queries,
as for a build function that reads no parallelism (rescale tier 0). Other changes require a new driver, in which the
script runs from its beginning (tier 3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, PreparedQuery
from airflow_adaptive.job.queries.batch_boundary import CHECK_INTERVAL_S, end_at_boundary
from airflow_adaptive.job.queries.job_query import JobQuery, StreamingQueries, boundaries, halt_session, stop_all
from airflow_adaptive.job.state.checkpoint_files import is_damage
from airflow_adaptive.job.state.repartition import RepartitionError

log = logging.getLogger(__name__)

FIRST_START_TIMEOUT_S: Final = 10.0
"""Time in seconds after which a plan becomes active even if the script has not started its first query."""

HALT_TIMEOUT_S: Final = 10.0
"""Time in seconds for which an immediate stop waits for a query that the script is starting."""

NEVER_STARTED: Final = FailureReport(
    error_class=FailureCode.SCRIPT_WITHOUT_JOB,
    message="the script ended, and none of its queries has run",
    causes=(FailureCode.SCRIPT_WITHOUT_JOB,),
)


class ScriptStoppedError(SystemExit):
    """The script starts a query while its driver is stopping; the script ends here normally."""


class ScriptQueries(StreamingQueries):
    """The workload of an unmanaged script. A query without a name has the name of the job.

    The driver loop calls the methods of `interfaces.Workload`, and the script calls the others.
    """

    def __init__(self, spark: SparkSession, *, job: str) -> None:
        super().__init__(spark, job)
        self._changed = threading.Condition()
        self._closed = False
        self._end_requested = False
        self._ending = False
        self._halted = False
        self._starting = 0
        self._queries: list[JobQuery] = []
        self._queries_at_end: Sequence[JobQuery] = ()
        self._script_ended = False
        self._released = False
        self._error: FailureReport | None = None

    # ---- the script ----

    def start_query(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Start a query of the script as soon as the driver loop permits it. Raises `ScriptStoppedError` if no query may start any more."""
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

    def view(self, read: Callable[[], Any]) -> Any:
        """Return what the script reads about its queries, or wait with the script for their ends.

        Queries end one after the other at their batch boundaries. The script does not see a requested end before `reveal_ends`, and in a fenced
        driver it sees none, because the process exits soon.
        """
        while True:
            self._wait_for_ends()
            try:
                value = read()
            except BaseException:
                self._wait_for_ends()
                raise
            with self._changed:
                if not self._ending and not self._halted:
                    return value

    def _wait_for_ends(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._ending and not self._halted)

    def stop_queries(self) -> None:
        """Stop all queries, because the script stops its session."""
        stop_all(self._running())

    def finish(self, error: FailureReport | None) -> None:
        """Record the end of the script, with or without an error. The driver waits for queries that still run.

        The first error counts. After a requested end, an error is a consequence of the end, and only a notice.
        """
        with self._changed:
            if error is not None and self._error is None and self._end_requested:
                log.warning(
                    "the script has failed after the requested end of its queries: %s: %s",
                    error.error_class,
                    error.message,
                )
                error = None
            self._script_ended, self._error = True, self._error or error
            self._queries_at_end = self._running()
            self._changed.notify_all()

    def reject_starts(self) -> None:
        """Admit no further queries."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reveal_ends(self) -> None:
        """Let the script see the ends of its queries, because the driver has written its last status: the script may end the process."""
        with self._changed:
            self._ending = False
            self._changed.notify_all()

    @property
    def failed(self) -> bool:
        """Whether the script has ended with an error."""
        return self._script_ended and self._error is not None

    @property
    def is_over(self) -> bool:
        """Whether the driver loop has handled the error of the script, so that nothing can run in this process any more."""
        return self.failed and self._released

    # ---- the driver loop ----

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """An empty tuple: the script reads no parallelism, so that no plan requires other queries."""
        return ()

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Return whether the queries can continue under a plan: always, unless the plan repartitions their state."""
        before = self._plan
        return before is not None and not (
            plan.repartition and dict(plan.state_partitions) != dict(before.state_partitions)
        )

    def adopt(self, plan: DriverPlan) -> None:
        self._plan = plan

    def build(self, plan: DriverPlan) -> DriverPlan:
        """Return the plan. Raises `RepartitionError` if the plan repartitions the state of running queries."""
        if self._plan is not None:
            raise RepartitionError(
                f"the script starts its queries itself and sets the partitions of their state, not {plan.state_partitions}; "
                "use AdaptiveJob to repartition the state"
            )
        return plan

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        """Do nothing: the script has come to its first query, and waits there."""
        return ()

    def is_prepared(self, _: DriverPlan, __: DriverPlan) -> bool:
        """Return True, because the state belongs to the script."""
        return True

    def prepare(self, _: DriverPlan, __: DriverPlan) -> None:
        """Do nothing; see `is_prepared`."""

    def start(self, _: DriverPlan, plan: DriverPlan) -> None:
        """Permit the script to start queries. Returns when it has started one or has ended, or after a timeout."""
        with self._changed:
            self._plan = plan
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._queries or self._script_ended, FIRST_START_TIMEOUT_S)

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End all queries at their boundaries, permanently. The script does not see their ends before `reveal_ends`.

        Without running queries, a completed script counts as `has_ended`.
        """
        if self._plan is None:
            return True
        self.reject_starts()
        deadline = time.monotonic() + timeout_s
        while self._starting and time.monotonic() < deadline:
            pause(CHECK_INTERVAL_S)
        running = self._running()
        if self.has_ended() and not running:
            return True
        with self._changed:
            self._end_requested = self._ending = True
        self._queries_at_end = self._queries_at_end or running
        exact = end_at_boundary(boundaries(running), max(0.0, deadline - time.monotonic()), pause)
        self.close()
        return exact

    def halt(self) -> bool:
        """Stop all queries immediately, without an effect in the script."""
        with self._changed:
            self._halted = self._closed = True
            self._changed.notify_all()
        halt_session(self._spark)
        with self._changed:
            all_started = self._changed.wait_for(lambda: not self._starting, HALT_TIMEOUT_S)
        stopped = halt_session(self._spark)  # including a query that was just started
        stopped = stop_all(self._running()) and stopped  # including queries of other sessions
        self.close()
        return stopped and all_started

    def has_ended(self) -> bool:
        """Return whether the script has ended without a request, with an error, or without running queries."""
        over = self._script_ended and not self._end_requested and not self._starting
        return over and (self._error is not None or not self._running())

    def close(self) -> None:
        super().close()
        self._released = True

    def failure(self) -> FailureReport | None:
        """Return the error of the script, or else the failure of a query that failed after the end of the script."""
        if self._error is not None:  # Perhaps that of a query, which `awaitTermination` has raised.
            failed = [(query, failure) for query in self._queries if (failure := query.failure()) is not None]
            damaged = (failure for _, failure in failed if is_damage(failure))
            return next(damaged, next((query.explain(self._error) for query, _ in failed), self._error))
        failures = (query.failure() for query in self._queries_at_end)
        found = next(filter(None, failures), None)
        return NEVER_STARTED if found is None and self._script_ended and not self._queries else found

    def parallelism(self) -> dict[str, int]:
        """Return the planned parallelism of each vertex, limited by the number of state partitions if all queries are stateful."""
        if self._plan is None:
            return {}
        kept = [query.state_partitions for query in self._running()]
        known = [partitions for partitions in kept if partitions is not None]
        cap = max(known) if known and len(known) == len(kept) else None
        return {name: count if cap is None else min(count, cap) for name, count in self._plan.parallelism.items()}

    def _raise_stopped(self) -> None:
        """End the script, or wait for the end of the process in a fenced driver."""
        self._changed.wait_for(lambda: not self._halted)
        raise ScriptStoppedError(0)

    def _track(self, query: StreamingQuery) -> None:
        """Track a new query, or the next run of a query that has ended."""
        known = self._previous_run(query.name)
        if known is None:
            known = JobQuery(self._spark, query.name or self._free_name(), "")
            self._queries.append(known)
        known.track(query)

    def _previous_run(self, name: str | None) -> JobQuery | None:
        """Return the ended query with the same name, which this query replaces."""
        ended = [query for query in self._queries if not query.active()]
        alike = [query for query in ended if (query.name == name if name else query.name.startswith(self._job))]
        return alike[0] if alike else None

    def _free_name(self) -> str:
        taken = {query.name for query in self._queries}
        names = (self._job if number == 1 else f"{self._job}-{number}" for number in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _known(self) -> Sequence[JobQuery]:
        return list(self._queries)

    def _running(self) -> Sequence[JobQuery]:
        return [query for query in list(self._queries) if query.active()]
