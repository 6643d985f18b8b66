"""A batch that the build function returned instead of a query. It runs once, and the job finishes with it.

A batch has no boundary and no checkpoint. Therefore a plan does not restart it: executors are added and removed while
it runs. A stop interrupts the batch; a restart, for example after a failure, runs it again from the beginning.

The module uses the JVM for `SparkContext.cancelJobGroupAndFutureJobs`, which the Python API lacks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrameWriter, SparkSession

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive._core.protocol.failures import report_exception
from airflow_adaptive.job.control.interfaces import BatchStillRunsError, StatefulRun

CHECK_INTERVAL_S: Final = 0.1
"""Interval in seconds between checks whether the thread of an interrupted batch has ended."""

HALT_TIMEOUT_S: Final = 10.0
"""Time in seconds for which `halt` waits for the thread of the batch; the same as `job_queries.HALT_TIMEOUT_MS`."""


class BatchQuery:
    """The batch of a job, in a thread of its own; see `interfaces.RunningWorkload`."""

    def __init__(self, spark: SparkSession, *, job: str) -> None:
        """Create a batch that does not run yet.

        Args:
            spark: session of the driver.
            job: id of the job, and name of the batch.
        """
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
        """The plan with which the batch was started, or None if it was never started or was ended."""
        return self._plan

    def can_adopt(self, _: DriverPlan) -> bool:
        """Return whether the batch runs. No plan restarts it."""
        return self._plan is not None and not self._cut

    def adopt(self, plan: DriverPlan) -> None:
        """Ignore the plan: a batch keeps the parallelism for which it was built."""

    def act_between_batches(self, _: float, __: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Call `act` immediately: a batch has no boundary, and its executors are released once they have no task."""
        act()
        return True

    def start(self, writer: DataFrameWriter, plan: DriverPlan) -> None:
        """Start to save the batch that the build function returned.

        Raises:
            BatchStillRunsError: an earlier run has not ended.
        """
        if self._alive():
            raise BatchStillRunsError(
                f"the batch of {self._job!r} was interrupted and has not ended: the driver is replaced, and the batch runs again"
            )
        self._runs += 1
        self._plan, self._saved, self._cut, self._error = plan, False, False, None
        self._thread = threading.Thread(target=self._save, args=(writer,), name=self._group, daemon=True)
        self._thread.start()

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """Interrupt the batch.

        Returns False if it does not end in time. A batch that was saved before counts as `has_ended`.
        """
        self._cancel()
        deadline = time.monotonic() + timeout_s
        while self._alive() and time.monotonic() < deadline:
            pause(CHECK_INTERVAL_S)
        if not self._alive() and not self._saved:
            self._plan = None
        return not self._alive()

    def halt(self) -> bool:
        """Interrupt the batch immediately."""
        self._cancel()
        if self._thread is not None:
            self._thread.join(HALT_TIMEOUT_S)
        self._plan = None
        return not self._alive()

    def wait_for_first_trigger(self, _: float) -> bool:
        """Return whether the batch has started."""
        return self._plan is not None

    def has_ended(self) -> bool:
        """Return whether the batch has ended without an interruption."""
        return self._plan is not None and not self._alive() and (self._saved or not self._cut)

    def close(self) -> None:
        """Release a batch that has ended."""
        self._plan = None

    def failure(self) -> FailureReport | None:
        """Return why the batch failed, or None if it runs, was interrupted or was saved."""
        if self._error is None or self._cut:
            return None
        return replace(report_exception(self._error), query=self._job)

    def reports(self) -> tuple[QueryReport, ...]:
        """Return whether the batch runs. A batch commits once, and the job finishes with it."""
        return (QueryReport(name=self._job, active=self._alive()),) if self._runs else ()

    def stateful_run(self) -> StatefulRun | None:
        """Return None, because a batch has no state."""
        return None

    def parallelism(self) -> dict[str, int]:
        """Return the parallelism of each vertex for which the batch was built."""
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
