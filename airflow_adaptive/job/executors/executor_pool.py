"""The executors of the application: how many are declared, which are there, which go.

All of it reaches into the JVM: `org.apache.spark.SparkContext`, its `AppStatusStore`, and the scheduler backend
`org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend` (of standalone, YARN and Kubernetes alike).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive.job.jvm import empty_scala_map, from_scala, scala_seq
from airflow_adaptive.job.protocol.documents import ExecutorReport

REQUEST_INTERVAL_S: Final = 10.0
"""A master that was recovered from its failure has forgotten the total, and one that was away has not heard of what was
given back: it is told so often."""

ANSWER_TIMEOUT_S: Final = 5.0
"""How long the control loop waits for the master. Spark itself would wait for two minutes (`spark.rpc.askTimeout`)."""

RELEASE_TIMEOUT_S: Final = 1.0
"""As above, for what is given back while queries are held for it. Spark marks that before it asks: it gets no task."""

KILL_OPTIONS: Final = {"adjustTargetNumExecutors": False, "countFailures": False, "force": False}
"""The target is declared before; nobody is to blame; an executor that runs a task is spared until it has none."""


class SparkExecutorPool:
    """The executors of one session."""

    def __init__(self, spark: SparkSession, *, clock: Callable[[], float], warn: Callable[[str], None]) -> None:
        """Take hold of the session's scheduler.

        Args:
            spark: the session.
            clock: monotonic, seconds.
            warn: told when the cluster manager refuses.
        """
        self._spark = spark
        self._clock = clock
        self._warn = warn
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend = self._context.schedulerBackend()
        self._requested: tuple[int, float] | None = None
        self._known: dict[str, ExecutorReport] = {}
        self._request_thread: threading.Thread | None = None

    def alive(self) -> bool:
        """Whether the SparkContext is; without it nothing can run in this process any more."""
        return not self._context.isStopped()

    def registered(self) -> tuple[ExecutorReport, ...]:
        """The executors that take tasks, in the order in which they were started."""
        ids = [name for name in self._ids() if self._is_active(name)]
        self._known = {name: report for name in ids if (report := self._known.get(name) or self._report_of(name))}
        return tuple(sorted(self._known.values(), key=_age))

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        """Whether each of these has done more tasks than it has slots."""
        return all(self._summary(each.executor_id).completedTasks() > each.cores for each in executors)

    def exiting(self) -> list[str]:
        """Ids of the executors that take no task any more: given back, and not ended yet."""
        return [name for name in self._ids() if not self._is_active(name)]

    def request_total(self, total: int) -> None:
        """Tell the cluster manager how many executors the application wants; it starts and replaces up to that number.

        More is never taken away by that: see `release`.
        """
        if self._requested is not None:
            declared, at = self._requested
            if declared == total and self._clock() - at < REQUEST_INTERVAL_S:
                return
        if self._request(lambda: self._request_total(total)):
            self._requested = (total, self._clock())

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Give back the executors above `total` (see `surplus`) that have no task now; the others when called again.

        `SparkContext.killExecutors` refuses under dynamic allocation; the backend does not. The total has to be
        declared first, else the manager replaces what is given back.
        """
        given_back = surplus(self.registered(), total, keep)
        if given_back:
            names = scala_seq(self._spark, given_back)
            self._request(lambda: self._backend.killExecutors(names, *KILL_OPTIONS.values()), RELEASE_TIMEOUT_S)

    def _request_total(self, total: int) -> None:
        """What is wanted, and again what is not: `killExecutors` asks for each executor but once (SPARK-9795)."""
        self._context.requestTotalExecutors(total, 0, empty_scala_map(self._spark))
        if leaving := self.exiting():
            self._backend.doKillExecutors(scala_seq(self._spark, leaving))

    def _ids(self) -> Sequence[str]:
        found: Sequence[str] = from_scala(self._spark, self._context.getExecutorIds())
        return found

    def _request(self, request: Callable[[], object], timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Ask the cluster manager, without hanging if it does; False if it has not answered an older request yet."""
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
            self._warn(f"the cluster manager did not do what was asked, trying on: {error}")

    def _is_active(self, name: str) -> bool:
        """Not lost, and not given back."""
        return bool(self._backend.isExecutorActive(name))

    def _summary(self, name: str) -> Any:
        """What the listeners have heard of it. Raises `Py4JJavaError` (NoSuchElementException) while that is nothing."""
        return self._context.statusStore().executorSummary(name)

    def _report_of(self, name: str) -> ExecutorReport | None:
        """None while the listeners have not heard of it."""
        try:
            summary = self._summary(name)
        except Py4JJavaError:
            return None
        logs = from_scala(self._spark, summary.executorLogs())
        return ExecutorReport(
            executor_id=name, cores=summary.totalCores(), worker=worker_address(logs.get("stdout") or "")
        )


def surplus(executors: Sequence[ExecutorReport], total: int, keep: Mapping[str, int]) -> list[str]:
    """Ids of the executors above `total`, in the order in which they go.

    Args:
        executors: in the order in which they were started.
        total: how many stay.
        keep: how many stay on each worker, as far as `total` allows. The worker that has most above that gives first;
            of one worker, of workers that are equal, and once all have what they keep, the youngest goes first.
    """
    left = list(executors)
    going: list[str] = []
    while len(left) > total:
        first = _first_to_go(left, keep)
        left.remove(first)
        going.append(first.executor_id)
    return going


def _first_to_go(executors: Sequence[ExecutorReport], keep: Mapping[str, int]) -> ExecutorReport:
    above = Counter(executor.worker for executor in executors)
    above.subtract(keep)
    most = max(above[executor.worker] for executor in executors)
    if not keep or most <= 0:
        return executors[-1]
    return [executor for executor in executors if above[executor.worker] == most][-1]


def worker_address(log_url: str) -> str:
    """Address of a worker's web UI, from the URL where it shows an executor's output; "" if that has none."""
    parts = urlsplit(log_url)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme and parts.netloc else ""


def _age(executor: ExecutorReport) -> tuple[int, str]:
    """Spark numbers executors in the order of their start."""
    return int(executor.executor_id) if executor.executor_id.isdecimal() else 0, executor.executor_id
