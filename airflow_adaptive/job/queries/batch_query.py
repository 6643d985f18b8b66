"""The workload of a build function: streaming queries, or a batch, which runs once and with which the job finishes.

A batch has no boundary and no checkpoint. Therefore a plan does not restart it: executors are added and removed while
it runs. A stop interrupts the batch; a restart, for example after a failure, runs it again from the beginning.

The module uses the JVM for `SparkContext.cancelJobGroupAndFutureJobs`, which the Python API lacks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrameWriter, SparkSession

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, PreparedQuery, QueryReport
from airflow_adaptive._core.protocol.failures import report_exception
from airflow_adaptive.job.control.interfaces import BatchStillRunsError, RunningWorkload, StatefulRun, Workload
from airflow_adaptive.job.queries.job_queries import JobQueries
from airflow_adaptive.job.queries.writers import Streams, Writers

CHECK_INTERVAL_S: Final = 0.1
"""Interval in seconds between checks whether the thread of an interrupted batch has ended."""

HALT_TIMEOUT_S: Final = 10.0
"""Time in seconds for which `halt` waits for the thread of the batch; the same as `job_queries.HALT_TIMEOUT_MS`."""


class BatchQuery(RunningWorkload):
    """The batch of a job, in a thread of its own. The batch has the name of the job."""

    def __init__(self, spark: SparkSession, *, job: str) -> None:
        self._python = spark.sparkContext
        self._context: Any = spark.sparkContext._jsc.sc()
        self._job = job
        self._runs = 0
        self._plan: DriverPlan | None = None
        self._thread: threading.Thread | None = None
        self._saved = False
        self._cut = False
        self._error: Exception | None = None

    @property
    def plan(self) -> DriverPlan | None:
        return self._plan

    def can_adopt(self, _: DriverPlan) -> bool:
        return self._plan is not None and not self._cut

    def adopt(self, plan: DriverPlan) -> None:
        """Ignore the plan: a batch keeps the parallelism for which it was built."""

    def act_between_batches(self, _: float, __: Callable[[float], None], act: Callable[[], None]) -> bool:
        act()  # a batch has no boundary, and its executors are released once they have no task
        return True

    def start(self, writer: DataFrameWriter, plan: DriverPlan) -> None:
        if self._alive():
            raise BatchStillRunsError(
                f"the batch of {self._job!r} was interrupted and has not ended: the driver is replaced, and the batch runs again"
            )
        self._runs += 1
        self._plan, self._saved, self._cut, self._error = plan, False, False, None
        self._thread = threading.Thread(target=self._save, args=(writer,), name=self._group, daemon=True)
        self._thread.start()

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """Interrupt the batch. Returns False if it does not end in time. A batch that was saved before counts as `has_ended`."""
        self._cancel()
        deadline = time.monotonic() + timeout_s
        while self._alive() and time.monotonic() < deadline:
            pause(CHECK_INTERVAL_S)
        if not self._alive() and not self._saved:
            self._plan = None
        return not self._alive()

    def halt(self) -> bool:
        self._cancel()
        if self._thread is not None:
            self._thread.join(HALT_TIMEOUT_S)
        self._plan = None
        return not self._alive()

    def wait_for_first_trigger(self, _: float) -> bool:
        return self._plan is not None

    def has_ended(self) -> bool:
        return self._plan is not None and not self._alive() and (self._saved or not self._cut)

    def close(self) -> None:
        self._plan = None

    def failure(self) -> FailureReport | None:
        if self._error is None or self._cut:
            return None
        return replace(report_exception(self._error), query=self._job)

    def reports(self) -> tuple[QueryReport, ...]:
        return (QueryReport(name=self._job, active=self._alive()),) if self._runs else ()

    def stateful_run(self) -> StatefulRun | None:
        return None

    def parallelism(self) -> dict[str, int]:
        return {} if self._plan is None else dict(self._plan.parallelism)

    @property
    def _group(self) -> str:
        """Group of the Spark jobs of this run. A canceled group accepts no further job."""
        return f"{self._job} batch {self._runs}"

    def _save(self, writer: DataFrameWriter) -> None:
        self._python.setJobGroup(self._group, f"batch of {self._job}", interruptOnCancel=True)
        try:
            writer.save()
        except Exception as error:  # noqa: BLE001  (Spark and the author's code; see `failure`)
            self._error = error
        else:
            self._saved = True

    def _cancel(self) -> None:
        if self._alive():
            self._cut = True
            if not self._context.isStopped():
                self._context.cancelJobGroupAndFutureJobs(self._group)

    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()


class JobWorkload(Workload):
    """Builds the queries, and starts them or the batch that the build function has returned."""

    def __init__(self, queries: JobQueries, batch: BatchQuery) -> None:
        self._queries = queries
        self._batch = batch
        self._running: RunningWorkload = queries

    @property
    def running(self) -> RunningWorkload:
        return self._running

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        return self._queries.vertices_read

    @property
    def gangs(self) -> Mapping[str, int]:
        return self._queries.gangs

    def build(self, plan: DriverPlan) -> Writers:
        return self._queries.build(plan)

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        return self._queries.warm_up(plan, has_executors=has_executors)

    def is_prepared(self, writers: Writers, plan: DriverPlan) -> bool:
        return isinstance(writers, DataFrameWriter) or self._queries.is_prepared(writers, plan)

    def prepare(self, writers: Streams, plan: DriverPlan) -> None:
        self._queries.prepare(writers, plan)

    def start(self, writers: Writers, plan: DriverPlan) -> None:
        if isinstance(writers, DataFrameWriter):
            self._running = self._batch
            self._batch.start(writers, plan)
        else:
            self._running = self._queries
            self._queries.start(writers, plan)

    def halt(self) -> bool:
        return all([self._batch.halt(), self._queries.halt()])
