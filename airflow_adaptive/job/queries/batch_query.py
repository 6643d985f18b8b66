"""A batch that the author's function returned instead of a query: run once, to its end, and the job is finished.

A batch has no boundary and no checkpoint. So it is not restarted for another plan: executors come and go under it. Told to
stop, it is cut; a restart, after a failure say, runs it again from the beginning.

Reaches into the JVM for what Python does not show: `SparkContext.cancelJobGroupAndFutureJobs`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrameWriter, SparkSession

from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.protocol.documents import DriverPlan, FailureReport, QueryReport
from airflow_adaptive.job.protocol.failures import report_exception

CHECK_INTERVAL_S: Final = 0.1
"""Between two looks whether a batch that is cut has let go of its thread."""

HALT_TIMEOUT_S: Final = 10.0
"""How long a batch that is stopped at once may take to let go of its thread; as `queries.HALT_TIMEOUT_MS`."""


class UnendedBatchError(RuntimeError):
    """The batch was cut and still runs: it must not be run a second time beside itself."""


class BatchQuery:
    """The one batch of a job, in a thread of its own; see `interfaces.Workload`."""

    def __init__(self, spark: SparkSession, *, job: str) -> None:
        """Nothing runs yet.

        Args:
            spark: the session.
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
        """The plan that the batch was started with; None if it was ended, or never started."""
        return self._plan

    def can_adopt(self, _: DriverPlan) -> bool:
        """Whether the batch need not be restarted for a plan: it never is."""
        return self._plan is not None and not self._cut

    def adopt(self, plan: DriverPlan) -> None:
        """A batch keeps the parallelism that it was made for, whatever executors it has."""

    def act_between_batches(self, _: float, __: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Do something at once: a batch has no boundary, and its executors are given back once they have no task."""
        act()
        return True

    def start(self, writer: DataFrameWriter, plan: DriverPlan) -> None:
        """Begin to save what the function returned.

        Raises:
            UnendedBatchError: an earlier run has not ended.
        """
        if self._alive():
            raise UnendedBatchError(f"the batch of {self._job!r} was cut and has not ended yet")
        self._runs += 1
        self._plan, self._saved, self._cut, self._error = plan, False, False, None
        self._thread = threading.Thread(target=self._save, args=(writer,), name=self._group, daemon=True)
        self._thread.start()

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """Cut the batch if it runs; False if it does not end in time. One that was saved before it was cut is `has_ended`."""
        self._cancel()
        deadline = time.monotonic() + timeout_s
        while self._alive() and time.monotonic() < deadline:
            pause(CHECK_INTERVAL_S)
        if not self._alive() and not self._saved:
            self._plan = None
        return not self._alive()

    def halt(self) -> None:
        """Cut the batch at once."""
        self._cancel()
        if self._thread is not None:
            self._thread.join(HALT_TIMEOUT_S)
        self._plan = None

    def wait_for_first_trigger(self, _: float) -> bool:
        """Whether the batch has begun: with its start."""
        return self._plan is not None

    def has_ended(self) -> bool:
        """Whether the batch has ended without being cut."""
        return self._plan is not None and not self._alive() and (self._saved or not self._cut)

    def close(self) -> None:
        """Let go of a batch that has ended."""
        self._plan = None

    def failure(self) -> FailureReport | None:
        """Why the batch failed, None if it runs, was cut, or nothing went wrong."""
        if self._error is None or self._cut:
            return None
        return replace(report_exception(self._error), query=self._job)

    def reports(self) -> tuple[QueryReport, ...]:
        """That the batch runs, or ran: it commits once, and then the job is finished."""
        return (QueryReport(name=self._job, active=self._alive()),) if self._runs else ()

    def stateful_run(self) -> StatefulRun | None:
        """None: a batch keeps no state."""
        return None

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex that the batch was made for."""
        return {} if self._plan is None else dict(self._plan.parallelism)

    @property
    def _group(self) -> str:
        """Of the Spark jobs of this run; a group that was cancelled takes no further job."""
        return f"{self._job} batch {self._runs}"

    def _save(self, writer: DataFrameWriter) -> None:
        self._python.setJobGroup(self._group, f"batch of {self._job}", interruptOnCancel=True)
        try:
            writer.save()
        except Exception as error:  # noqa: BLE001  Spark's, and the author's code inside of it; see `failure`
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
