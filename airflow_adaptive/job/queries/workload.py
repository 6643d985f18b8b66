"""The workload of the job: streaming queries or a batch, depending on what the build function returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrameWriter

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.control.interfaces import RunningWorkload, StatefulRun
from airflow_adaptive.job.queries.batch_query import BatchQuery
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.writers import Streams, Writers


class JobWorkload:
    """Builds the workload and delegates to the queries or to the batch; see `interfaces.Workload`."""

    def __init__(self, queries: JobQueries, batch: BatchQuery) -> None:
        """Create a workload, which is streaming until the build function returns a batch."""
        self._queries = queries
        self._batch = batch
        self._current: RunningWorkload = queries

    @property
    def plan(self) -> DriverPlan | None:
        """See `interfaces.Workload`."""
        return self._current.plan

    def can_adopt(self, plan: DriverPlan) -> bool:
        """See `interfaces.Workload`."""
        return self._current.can_adopt(plan)

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """See `interfaces.Workload`."""
        return self._queries.vertices_read

    @property
    def gangs(self) -> Mapping[str, int]:
        """See `interfaces.Workload`."""
        return self._queries.gangs

    def adopt(self, plan: DriverPlan) -> None:
        """See `interfaces.Workload`."""
        self._current.adopt(plan)

    def build(self, plan: DriverPlan) -> Writers:
        """See `JobQueries.build`."""
        return self._queries.build(plan)

    def is_prepared(self, writers: Writers, plan: DriverPlan) -> bool:
        """See `JobQueries.is_prepared`; a batch has no state."""
        return isinstance(writers, DataFrameWriter) or self._queries.is_prepared(writers, plan)

    def prepare(self, writers: Streams, plan: DriverPlan) -> None:
        """See `JobQueries.prepare`."""
        self._queries.prepare(writers, plan)

    def start(self, writers: Writers, plan: DriverPlan) -> None:
        """Start the writers that `build` returned. No query of the job is running."""
        if isinstance(writers, DataFrameWriter):
            self._current = self._batch
            self._batch.start(writers, plan)
        else:
            self._current = self._queries
            self._queries.start(writers, plan)

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """See `interfaces.Workload`."""
        return self._current.act_between_batches(timeout_s, pause, act)

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """See `interfaces.Workload`."""
        return self._current.end(timeout_s, pause)

    def halt(self) -> bool:
        """Stop everything that runs in the session immediately. Returns False if something may still be running."""
        return all([self._batch.halt(), self._queries.halt()])

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """See `interfaces.Workload`."""
        return self._current.wait_for_first_trigger(timeout_s)

    def has_ended(self) -> bool:
        """See `interfaces.Workload`."""
        return self._current.has_ended()

    def close(self) -> None:
        """See `interfaces.Workload`."""
        self._current.close()

    def failure(self) -> FailureReport | None:
        """See `interfaces.Workload`."""
        return self._current.failure()

    def reports(self) -> tuple[QueryReport, ...]:
        """See `interfaces.Workload`."""
        return self._current.reports()

    def stateful_run(self) -> StatefulRun | None:
        """See `interfaces.Workload`."""
        return self._current.stateful_run()

    def parallelism(self) -> dict[str, int]:
        """See `interfaces.Workload`."""
        return self._current.parallelism()
