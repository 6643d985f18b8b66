"""The executors of the application: their requested total, the registered executors, and their release; and where stateful tasks run on them.

The module uses these classes of the JVM: `org.apache.spark.SparkContext`, its `AppStatusStore`, and the scheduler
backend `org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend` (the same for standalone, YARN and
Kubernetes).

Theory of the balancer (`load_balance_mode = "tasks"` on Spark): it spreads the stateful tasks of a running query over its executors. Spark runs a stateful task where its state is (`StateStoreRDD.getPreferredLocations`). Therefore the first batch
of a run determines the placement for all later batches: warm executors have taken most tasks, and an executor that
registers later gets none. A task runs elsewhere only if its preferred executor has been busy for `spark.locality.wait`,
and short tasks never wait that long. Without that wait, a free executor takes any task, loads its state, and becomes
the preferred executor of that state. Therefore the balancer sets the wait to 0 until the tasks are balanced, for at
most a few batches, because each move of a task reloads its state. The balancer also sets the wait to 0 when executors
are released: Spark prefers them until their JVMs have exited, which takes seconds, and tasks would wait for executors
on which they cannot run.

`TaskSetManager` reads the wait from the configuration of the SparkContext when a stage is submitted and when executors
are added or removed, so a change applies to the next stage. The stages of the query's last batch in the
`AppStatusStore` show where tasks ran. Their values for each executor are complete when the stage is complete; the
totals of an executor are delayed and include all stages. The same applies to Spark 4.2 and 4.3.
"""

from __future__ import annotations

import json
import math
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.documents import Capability, Decommission, ExecutorLoad, ExecutorReport
from airflow_adaptive.job.control.interfaces import ExecutorPool, StatefulRun, TaskBalancer
from airflow_adaptive.job.spark_internals import empty_scala_map, from_scala, report_spark, scala_seq

REQUEST_INTERVAL_S: Final = 10.0
"""Interval in seconds at which requests are repeated: a master that has recovered from a failure has lost the total, and one that was
unreachable has not received the releases."""

ANSWER_TIMEOUT_S: Final = 5.0
"""Time in seconds for which the driver loop waits for the master. Spark itself would wait for two minutes (`spark.rpc.askTimeout`)."""

RELEASE_TIMEOUT_S: Final = 1.0
"""Like `ANSWER_TIMEOUT_S`, while queries are blocked. Spark marks the executors before the request, so that they get no tasks."""

KILL_OPTIONS: Final = {"adjustTargetNumExecutors": False, "countFailures": False, "force": False}
"""The target was requested before; the exit is not a failure; and a busy executor is removed only once it is idle."""


LOAD_INTERVAL_S: Final = 10.0
"""Interval in seconds at which the totals of the executors are read; each executor takes some calls of the JVM, and sends a heartbeat as often."""

LOADED_EXECUTORS: Final = 100
"""Executors, the oldest first, whose totals are read."""

HEAP: Final = "JVMHeapMemory"
"""Spark's name of the heap in the peaks of an executor."""

NODE_NAME: Final = "NODE_NAME"
"""Attribute of an executor on a cluster manager whose workers have no web UI."""


HOLD_INTERVAL_S: Final = 5.0
"""Interval in seconds at which a driver without active executors checks whether its application is held."""

HOLD_TIMEOUT_S: Final = 2.0
"""Time in seconds for which the driver loop waits for the answer of the driver's own web UI."""


class SparkExecutorPool(ExecutorPool):
    """The executors of one session. `warn` is called when the cluster manager rejects a request."""

    def __init__(self, spark: SparkSession, *, clock: Callable[[], float], warn: Callable[[str], None]) -> None:
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
        self._load: ExecutorLoad | None = None
        self._loaded_at = -math.inf

    def alive(self) -> bool:
        return not self._context.isStopped()

    def registered(self) -> tuple[ExecutorReport, ...]:
        ids = [name for name in self._ids() if self._is_active(name)]
        self._known = {name: report for name in ids if (report := self._known.get(name) or self._report_of(name))}
        return tuple(sorted(self._known.values(), key=_age))

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        return all(self._summary(each.executor_id).completedTasks() > each.cores for each in executors)

    def load(self) -> ExecutorLoad | None:
        if self._clock() - self._loaded_at >= LOAD_INTERVAL_S:
            self._loaded_at = self._clock()
            names = [executor.executor_id for executor in self.registered()[:LOADED_EXECUTORS]]
            try:
                self._load = _total_load([self._summary(name) for name in names])
            except Py4JError:  # An executor is lost meanwhile.
                self._load = None
        return self._load

    def exiting(self) -> list[str]:
        return [name for name in self._ids() if not self._is_active(name) and not self._is_decommissioned(name)]

    def decommission(self) -> Decommission:
        names = self._ids()
        inactive = [name for name in names if not self._is_active(name)]  # a decommissioned executor is not active
        leaving = [name for name in inactive if self._is_decommissioned(name)]
        workers = {report.worker if (report := self._report_of(name)) else name for name in leaving}
        return Decommission(workers=tuple(sorted(workers)), held=self._is_held(has_active=len(inactive) < len(names)))

    def request_total(self, total: int) -> None:
        if self._requested is not None:
            declared, at = self._requested
            if declared == total and self._clock() - at < REQUEST_INTERVAL_S:
                return
        if self._request(lambda: self._request_total(total)):
            self._requested = (total, self._clock())

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Release executors; see `surplus`. The total has to be requested first, or else the cluster manager replaces them.

        `SparkContext.killExecutors` rejects calls under dynamic allocation; the backend does not.
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
        """Send a request without blocking longer than the timeout. Returns False while an older request has no answer."""
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
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(page, timeout=HOLD_TIMEOUT_S) as answer:
                return bool(json.load(answer)["held"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._warn(f"whether the application is held is unknown, will try again: {error}")
            return None

    def _summary(self, name: str) -> Any:
        """Return Spark's metrics of an executor. Raises `Py4JJavaError` (NoSuchElementException) before the first one."""
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


def _total_load(summaries: Sequence[Any]) -> ExecutorLoad | None:
    """Return the totals of executors, None without any."""
    peaks = [summary.peakMemoryMetrics() for summary in summaries]
    heaps = [int(peak.get().getMetricValue(HEAP)) for peak in peaks if peak.isDefined()]
    return (
        ExecutorLoad(
            task_ms=sum(int(summary.totalDuration()) for summary in summaries),
            gc_ms=sum(int(summary.totalGCTime()) for summary in summaries),
            peak_heap_bytes=max(heaps, default=0),
        )
        if summaries
        else None
    )


def surplus(executors: Sequence[ExecutorReport], total: int, keep: Mapping[str, int]) -> list[str]:
    """Return the ids of the executors above `total`, in the order in which they are released. The oldest executor comes first in `executors`.

    `keep` is the number of executors that remain on each worker, as far as `total` allows. The worker with the most executors above its
    number releases first. The youngest executor of a worker, of equal workers, and of all workers without surplus goes first.
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

    That is the name of its node (environment variable `SPARK_EXECUTOR_ATTRIBUTE_NODE_NAME`), or the address of the worker's web UI, with
    which the URL of the executor's output begins.
    """
    if node := attributes.get(NODE_NAME):
        return node
    parts = urlsplit(logs.get("stdout") or "")
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme and parts.netloc else ""


def _age(executor: ExecutorReport) -> tuple[int, str]:
    """Return the sort key of an executor's age: Spark numbers executors in the order of their start."""
    return int(executor.executor_id) if executor.executor_id.isdecimal() else 0, executor.executor_id


MAX_BATCHES: Final = 4
"""Maximum number of batches without the wait. The first of them may have begun before the wait was set to 0."""

BALANCE_TIMEOUT_S: Final = 600.0
"""Time in seconds after which the wait is restored even if no batch has ended; the next batch shows whether to drop it again."""

WAIT: Final = "spark.locality.wait"
WAITS: Final = (WAIT, f"{WAIT}.process", f"{WAIT}.node", f"{WAIT}.rack")
"""The wait, and the waits of the locality levels, which override it. The balancer changes a level only if it is set."""

MAX_JOBS: Final = 10
"""Maximum number of Spark jobs to inspect: a batch may consist of several jobs (`foreachBatch`), one of which has the stateful stage."""

Tasks = Mapping[str, int]
"""Number of tasks of one stage, by executor id."""


class Placement(Protocol):
    """Spark's placement of tasks, and the wait that controls it; see `SparkPlacement`."""

    def last_batch(self, run: StatefulRun) -> Sequence[Tasks]:
        """Return where the tasks of each stateful stage of the newest batch ran; empty if unknown."""

    def drop_locality_wait(self) -> None:
        """Let every free executor take any task, from the next stage on."""

    def restore_locality_wait(self) -> None:
        """Undo `drop_locality_wait`."""


class LocalityBalancer(TaskBalancer):
    """Balances the tasks of one query; does nothing while they are balanced."""

    def __init__(self, placement: Placement, *, clock: Callable[[], float]) -> None:
        self._placement = placement
        self._clock = clock
        self._balanced: tuple[str, frozenset[str]] | None = None
        self._checked: tuple[frozenset[str], StatefulRun] | None = None
        self._first_batch: int | None = None
        self._dropped_at: float | None = None

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """See `interfaces.TaskBalancer`. Whether the tasks are balanced is checked in a new run and after executors were added or removed."""
        slots = {executor.executor_id: executor.cores for executor in executors}
        there = frozenset(slots)
        if self._dropped_at is not None and self._clock() - self._dropped_at >= BALANCE_TIMEOUT_S:
            self._restore_locality_wait()
        if (run.run_id, there) != self._balanced and (there, run) != self._checked:
            self._checked = there, run
            stages = self._placement.last_batch(run)
            if stages and all(map(there.issuperset, stages)):  # after the loss of an executor, wait for the next batch
                self._evaluate(stages, slots, run)
        return (run.run_id, there) == self._balanced

    def ignore_locality(self) -> None:
        self._balanced = self._checked = self._first_batch = None
        self._drop_locality_wait()

    def restore(self) -> None:
        self._first_batch = None
        self._restore_locality_wait()

    def _evaluate(self, stages: Sequence[Tasks], slots: Mapping[str, int], run: StatefulRun) -> None:
        first = run.batch_id if self._first_batch is None else self._first_batch
        if run.batch_id - first >= MAX_BATCHES or all(is_balanced(tasks, slots) for tasks in stages):
            self._balanced = run.run_id, frozenset(slots)
            self.restore()
        else:
            self._first_batch, self._balanced = first, None
            self._drop_locality_wait()

    def _drop_locality_wait(self) -> None:
        if self._dropped_at is None:
            self._dropped_at = self._clock()
            self._placement.drop_locality_wait()

    def _restore_locality_wait(self) -> None:
        if self._dropped_at is not None:
            self._dropped_at = None
            self._placement.restore_locality_wait()


def is_balanced(tasks: Tasks, slots: Mapping[str, int]) -> bool:
    """Return whether the tasks of a stage are balanced over the executors (id -> slots).

    A slot runs its tasks one after another, in rounds. No executor may need more rounds than an even distribution
    needs, plus about a quarter: one more round from three on, and two more from seven on.
    """
    even = math.ceil(sum(tasks.values()) / max(1, sum(slots.values())))
    rounds = max((math.ceil(tasks.get(executor, 0) / count) for executor, count in slots.items()), default=0)
    return rounds <= even + (even + 1) // 4


class SparkPlacement(Placement):
    """Task placement of one session. `warn` is called once if Spark does not provide it; the balancer then does nothing."""

    def __init__(self, spark: SparkSession, *, warn: Callable[[str], None]) -> None:
        self._spark = spark
        self._warn = warn
        self._warned = False
        self._context: Any = spark.sparkContext._jsc.sc()
        self._original: dict[str, str] = {}

    def last_batch(self, run: StatefulRun) -> Sequence[Tasks]:
        """See `Placement`. A stage with as many tasks as the query has state partitions counts as stateful."""
        try:
            jobs = self._context.statusTracker().getJobIdsForGroup(run.run_id)  # the newest first
            return next(filter(None, (self._stages(job, run) for job in islice(jobs, MAX_JOBS))), [])
        except Py4JError as error:
            self._warn_once(f"no load balancing, because Spark does not report where tasks ran: {error}")
            return []

    def drop_locality_wait(self) -> None:
        conf = self._context.conf()
        self._original = {name: conf.get(name) for name in WAITS if conf.contains(name)}
        for name in (WAIT, *self._original):
            conf.set(name, "0s")

    def restore_locality_wait(self) -> None:
        try:
            conf = self._context.conf()
            conf.remove(WAIT)
            for name, value in self._original.items():
                conf.set(name, value)
        except Py4JError as error:  # the JVM has exited
            self._warn_once(f"{WAIT} not restored: {error}")

    def _stages(self, number: int, run: StatefulRun) -> Sequence[Tasks]:
        """Return the stages of one job; empty while the job runs."""
        job = self._context.statusStore().job(number)
        if str(job.status()) != "SUCCEEDED":
            return []
        found = (self._tasks(stage, run) for stage in from_scala(self._spark, job.stageIds()))
        return [tasks for tasks in found if tasks]

    def _tasks(self, stage: int, run: StatefulRun) -> Tasks:
        """Return the tasks of a stage; empty for a stage that is stateless or was skipped."""
        store = self._context.statusStore()
        data = store.lastStageAttempt(stage)
        if data.numTasks() != run.state_partitions or str(data.status()) != "COMPLETE":
            return {}
        executors = from_scala(self._spark, store.executorSummary(stage, data.attemptId()))
        return {executor: executors[executor].succeededTasks() for executor in executors}

    def _warn_once(self, message: str) -> None:
        if not self._warned:
            self._warn(message)
        self._warned = True
