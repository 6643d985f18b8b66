"""Spreads the stateful tasks of a running query over its executors: what `load_balance = "tasks"` means on Spark.

Theory: Spark runs a stateful task where its state is (`StateStoreRDD.getPreferredLocations`). So the first batch of a
run decides for all that follow: executors that were warm took most of its tasks, one that came later gets none. A task
goes elsewhere only if its own place is taken for `spark.locality.wait`, and short tasks never wait for so long. Without
that wait a free executor takes any task, loads its state, and is the place of that state from then on. So the wait is
dropped until the tasks lie evenly, for a few batches at most, since each task that moves pays for its state. And it is
dropped when executors are given back: Spark counts them as places until their JVMs have ended, which takes seconds, and
tasks that can't run there any more would wait for them.

`TaskSetManager` reads the wait from the SparkContext's own configuration when a stage is submitted and when executors
come or go, so a change holds for the next stage. Where tasks ran is read from the stages of the query's last batch in
the `AppStatusStore`: what that has per executor of a stage is complete once the stage is (its figures of an executor
as a whole are written with delay, and mix all stages). The same in Spark 4.2 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.jvm import from_scala
from airflow_adaptive.job.protocol.documents import ExecutorReport

MAX_BATCHES: Final = 4
"""So many batches without the wait at most; the first of them had begun, perhaps, when it was dropped."""

TIMEOUT_S: Final = 600.0
"""The wait comes back after that, even if no batch has ended; the next batch shows whether it has to go again."""

WAIT: Final = "spark.locality.wait"
WAITS: Final = (WAIT, f"{WAIT}.process", f"{WAIT}.node", f"{WAIT}.rack")
"""Those of one level hold for it instead of the first; they are changed if they are set."""

MAX_JOBS: Final = 10
"""A batch may be several Spark jobs (`foreachBatch`), of which one has the stateful stage."""

Tasks = Mapping[str, int]
"""Executor id -> tasks of one stage."""


class Placement(Protocol):
    """What Spark knows of tasks, and the wait that it places them by; see `SparkPlacement`."""

    def last_batch(self, run: StatefulRun) -> Sequence[Tasks]:
        """Where the tasks of each stateful stage ran in the newest batch; empty if that is not known."""
        ...

    def drop_locality_wait(self) -> None:
        """Let every free executor take any task from the next stage on."""
        ...

    def restore_locality_wait(self) -> None:
        """Undo `drop_wait`."""
        ...


class LocalityBalancer:
    """Watches one query; does nothing as long as its tasks lie evenly."""

    def __init__(self, placement: Placement, *, clock: Callable[[], float]) -> None:
        """Nothing is watched yet.

        Args:
            placement: of the session.
            clock: monotonic, seconds.
        """
        self._placement = placement
        self._clock = clock
        self._balanced: tuple[str, frozenset[str]] | None = None
        self._checked: tuple[frozenset[str], StatefulRun] | None = None
        self._first_batch: int | None = None
        self._dropped_at: float | None = None

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """Look whether the tasks lie evenly, if that is open: in a new run, and after executors came or went.

        Returns:
            Whether no more is to be done about it: they do, or would not in time.
        """
        slots = {executor.executor_id: executor.cores for executor in executors}
        there = frozenset(slots)
        if self._dropped_at is not None and self._clock() - self._dropped_at >= TIMEOUT_S:
            self._restore_locality_wait()
        if (run.run_id, there) != self._balanced and (there, run) != self._checked:
            self._checked = there, run
            stages = self._placement.last_batch(run)
            if stages and all(
                map(there.issuperset, stages)
            ):  # where the tasks of a lost executor go the next batch shows
                self._evaluate(stages, slots, run)
        return (run.run_id, there) == self._balanced

    def ignore_locality(self) -> None:
        """Executors are given back: what would run there runs elsewhere from the next batch on, not after the wait."""
        self._balanced = self._checked = self._first_batch = None
        self._drop_locality_wait()

    def restore(self) -> None:
        """The query ends, or nothing is to be spread any more: bring the wait back if it was dropped."""
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
    """Whether the tasks of a stage lie evenly on the executors (id -> slots) that are there now.

    A slot runs its tasks one after the other, in rounds. No executor may need more of them than an even distribution
    does, or about a quarter more where that needs several: one more from three on, two more from seven on.
    """
    even = math.ceil(sum(tasks.values()) / max(1, sum(slots.values())))
    rounds = max((math.ceil(tasks.get(executor, 0) / count) for executor, count in slots.items()), default=0)
    return rounds <= even + (even + 1) // 4


class SparkPlacement:
    """`Placement` of one session."""

    def __init__(self, spark: SparkSession, *, warn: Callable[[str], None]) -> None:
        """Take hold of the session's context.

        Args:
            spark: the session.
            warn: told, once, when Spark does not answer as it should: then nothing is spread.
        """
        self._spark = spark
        self._warn = warn
        self._warned = False
        self._context: Any = spark.sparkContext._jsc.sc()
        self._original: dict[str, str] = {}

    def last_batch(self, run: StatefulRun) -> Sequence[Tasks]:
        """See `Placement`. A stage with as many tasks as the query has state partitions is taken for stateful."""
        try:
            jobs = self._context.statusTracker().getJobIdsForGroup(run.run_id)  # the newest first
            return next(filter(None, (self._stages(job, run) for job in islice(jobs, MAX_JOBS))), [])
        except Py4JError as error:
            self._warn_once(f"no load balancing, Spark does not tell where tasks ran: {error}")
            return []

    def drop_locality_wait(self) -> None:
        """See `Placement`."""
        conf = self._context.conf()
        self._original = {name: conf.get(name) for name in WAITS if conf.contains(name)}
        for name in (WAIT, *self._original):
            conf.set(name, "0s")

    def restore_locality_wait(self) -> None:
        """See `Placement`."""
        try:
            conf = self._context.conf()
            conf.remove(WAIT)
            for name, value in self._original.items():
                conf.set(name, value)
        except Py4JError as error:  # the JVM is gone, and the wait with it
            self._warn_once(f"{WAIT} not restored: {error}")

    def _stages(self, number: int, run: StatefulRun) -> Sequence[Tasks]:
        """Of one job; empty while it runs."""
        job = self._context.statusStore().job(number)
        if str(job.status()) != "SUCCEEDED":
            return []
        found = (self._tasks(stage, run) for stage in from_scala(self._spark, job.stageIds()))
        return [tasks for tasks in found if tasks]

    def _tasks(self, stage: int, run: StatefulRun) -> Tasks:
        """Empty for a stage that is not stateful, or was skipped."""
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
