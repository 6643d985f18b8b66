"""The executors of the application: their requested total, the registered executors, and their release.

The module uses these classes of the JVM: `org.apache.spark.SparkContext`, its `AppStatusStore`, and the scheduler
backend `org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend` (the same for standalone, YARN and
Kubernetes).
"""

from __future__ import annotations

import json
import math
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.documents import Capability, Decommission, ExecutorReport
from airflow_adaptive.job.spark_internals import empty_scala_map, from_scala, report_spark, scala_seq

REQUEST_INTERVAL_S: Final = 10.0
"""Interval in seconds at which requests are repeated. A master that has recovered from a failure has lost the total,
and a master that was unreachable has not received the releases."""

ANSWER_TIMEOUT_S: Final = 5.0
"""Time in seconds for which the driver loop waits for the master. Spark itself would wait for two minutes
(`spark.rpc.askTimeout`)."""

RELEASE_TIMEOUT_S: Final = 1.0
"""Like `ANSWER_TIMEOUT_S`, for a release while queries are blocked. Spark marks the executors before the request, so
that they get no tasks."""

KILL_OPTIONS: Final = {"adjustTargetNumExecutors": False, "countFailures": False, "force": False}
"""The target was requested before; the exit is not a failure; and a busy executor is removed only once it is idle."""


NODE_NAME: Final = "NODE_NAME"
"""Attribute of an executor on a cluster manager whose workers have no web UI."""


HOLD_INTERVAL_S: Final = 5.0
"""Interval in seconds at which a driver without active executors checks whether its application is held."""

HOLD_TIMEOUT_S: Final = 2.0
"""Time in seconds for which the driver loop waits for the answer of the driver's own web UI."""


class SparkExecutorPool:
    """The executors of one session."""

    def __init__(self, spark: SparkSession, *, clock: Callable[[], float], warn: Callable[[str], None]) -> None:
        """Connect to the session's scheduler.

        Args:
            spark: session of the driver.
            clock: monotonic clock, in seconds.
            warn: called when the cluster manager rejects a request.
        """
        self._spark = spark
        self._clock = clock
        self._warn = warn
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend = self._context.schedulerBackend()
        self._requested: tuple[int, float] | None = None
        self._known: dict[str, ExecutorReport] = {}
        self._request_thread: threading.Thread | None = None
        self._can_be_held = not report_spark(spark.version).lack(Capability.HOLD)
        self._held = False
        self._hold_checked_at = -math.inf

    def alive(self) -> bool:
        """Return whether the SparkContext is running; without it, nothing can run in this process."""
        return not self._context.isStopped()

    def registered(self) -> tuple[ExecutorReport, ...]:
        """Return the executors that accept tasks, oldest first."""
        ids = [name for name in self._ids() if self._is_active(name)]
        self._known = {name: report for name in ids if (report := self._known.get(name) or self._report_of(name))}
        return tuple(sorted(self._known.values(), key=_age))

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        """Return whether each executor has completed more tasks than it has slots."""
        return all(self._summary(each.executor_id).completedTasks() > each.cores for each in executors)

    def exiting(self) -> list[str]:
        """Return the ids of executors that accept no tasks: they were released and have not exited yet."""
        return [name for name in self._ids() if not self._is_active(name) and not self._is_decommissioned(name)]

    def decommission(self) -> Decommission:
        """Return what an administrator takes from the job."""
        names = self._ids()
        inactive = [name for name in names if not self._is_active(name)]  # a decommissioned executor is not active
        leaving = [name for name in inactive if self._is_decommissioned(name)]
        workers = {report.worker if (report := self._report_of(name)) else name for name in leaving}
        return Decommission(workers=tuple(sorted(workers)), held=self._is_held(has_active=len(inactive) < len(names)))

    def request_total(self, total: int) -> None:
        """Request a total number of executors; the cluster manager starts and replaces executors up to that number.

        A smaller total removes no executors: see `release`.
        """
        if self._requested is not None:
            declared, at = self._requested
            if declared == total and self._clock() - at < REQUEST_INTERVAL_S:
                return
        if self._request(lambda: self._request_total(total)):
            self._requested = (total, self._clock())

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Release the executors above `total` (see `surplus`) that run no task; another call releases the others.

        `SparkContext.killExecutors` rejects calls under dynamic allocation; the backend does not. The total has to be
        requested first, or else the cluster manager replaces the released executors.
        """
        released = surplus(self.registered(), total, keep)
        if released:
            names = scala_seq(self._spark, released)
            self._request(lambda: self._backend.killExecutors(names, *KILL_OPTIONS.values()), RELEASE_TIMEOUT_S)

    def _request_total(self, total: int) -> None:
        """Request the total, and repeat the releases: `killExecutors` requests each release only once (SPARK-9795)."""
        self._context.requestTotalExecutors(total, 0, empty_scala_map(self._spark))
        if leaving := self.exiting():
            self._backend.doKillExecutors(scala_seq(self._spark, leaving))

    def _ids(self) -> Sequence[str]:
        found: Sequence[str] = from_scala(self._spark, self._context.getExecutorIds())
        return found

    def _request(self, request: Callable[[], object], timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Send a request without blocking longer than the timeout.

        Returns False while an older request has no answer.
        """
        if self._request_thread is not None and self._request_thread.is_alive():
            return False
        self._request_thread = threading.Thread(target=self._attempt, args=(request,), daemon=True)
        self._request_thread.start()
        self._request_thread.join(timeout_s)
        return True

    def _attempt(self, request: Callable[[], object]) -> None:
        try:
            request()
        except (Py4JError, PySparkException) as error:
            self._warn(f"the cluster manager did not fulfill a request, will retry: {error}")

    def _is_active(self, name: str) -> bool:
        """Return whether the executor is neither lost nor released."""
        return bool(self._backend.isExecutorActive(name))

    def _is_decommissioned(self, name: str) -> bool:
        return bool(self._context.taskScheduler().getExecutorDecommissionState(name).isDefined())

    def _is_held(self, *, has_active: bool) -> bool:
        """Return whether the application is held. Spark tells this only in the REST API of the driver, which is requested only while no executor is active."""
        if not self._can_be_held or has_active:
            self._held = False
        elif self._clock() - self._hold_checked_at >= HOLD_INTERVAL_S and (answer := self._hold_status()) is not None:
            self._held = answer
        return self._held

    def _hold_status(self) -> bool | None:
        """Return whether Spark reports the application as held, or None without an answer."""
        self._hold_checked_at = self._clock()
        url = self._context.uiWebUrl()
        if not url.isDefined():
            return False  # without the web UI, no user can hold it
        page = f"{url.get()}/api/v1/applications/{self._context.applicationId()}/holdstatus"
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                page, timeout=HOLD_TIMEOUT_S
            ) as answer:
                return bool(json.load(answer)["held"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._warn(f"whether the application is held is unknown, will try again: {error}")
            return None

    def _summary(self, name: str) -> Any:
        """Return Spark's metrics of an executor.

        Raises `Py4JJavaError` (NoSuchElementException) before the first one.
        """
        return self._context.statusStore().executorSummary(name)

    def _report_of(self, name: str) -> ExecutorReport | None:
        """Return the report of an executor, or None before its first metrics."""
        try:
            summary = self._summary(name)
        except Py4JJavaError:
            return None
        worker = executor_worker(
            from_scala(self._spark, summary.attributes()), from_scala(self._spark, summary.executorLogs())
        )
        return ExecutorReport(executor_id=name, cores=summary.totalCores(), worker=worker)


def surplus(executors: Sequence[ExecutorReport], total: int, keep: Mapping[str, int]) -> list[str]:
    """Return the ids of the executors above `total`, in the order in which they are released.

    Args:
        executors: registered executors, oldest first.
        total: number of executors that remain.
        keep: number of executors that remain on each worker, as far as `total` allows. The worker with the most
            executors above its number releases first. The youngest executor of a worker, of equal workers, and of all
            workers without surplus goes first.
    """
    left = list(executors)
    released: list[str] = []
    while len(left) > total:
        first = _next_to_release(left, keep)
        left.remove(first)
        released.append(first.executor_id)
    return released


def _next_to_release(executors: Sequence[ExecutorReport], keep: Mapping[str, int]) -> ExecutorReport:
    above = Counter(executor.worker for executor in executors)
    above.subtract(keep)
    most = max(above[executor.worker] for executor in executors)
    if not keep or most <= 0:
        return executors[-1]
    return [executor for executor in executors if above[executor.worker] == most][-1]


def executor_worker(attributes: Mapping[str, str], logs: Mapping[str, str]) -> str:
    """Return the address of an executor's worker, or "" if the address is unknown.

    Args:
        attributes: attributes of the executor. `NODE_NAME` is the name of its node (environment variable
            `SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME`).
        logs: URLs of the executor's outputs. Without the attribute, the URL of the output begins with the address of the worker's web UI.
    """
    if node := attributes.get(NODE_NAME):
        return node
    parts = urlsplit(logs.get("stdout") or "")
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme and parts.netloc else ""


def _age(executor: ExecutorReport) -> tuple[int, str]:
    """Return the sort key of an executor's age: Spark numbers executors in the order of their start."""
    return int(executor.executor_id) if executor.executor_id.isdecimal() else 0, executor.executor_id
