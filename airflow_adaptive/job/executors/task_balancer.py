"""Spreads the stateful tasks of a running query over its executors (`load_balance_mode = "tasks"` on Spark).

Theory: Spark runs a stateful task where its state is (`StateStoreRDD.getPreferredLocations`). Therefore the first batch
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

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from airflow_adaptive._core.protocol.documents import ExecutorReport
from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.spark_internals import from_scala

MAX_BATCHES: Final = 4
"""Maximum number of batches without the wait. The first of them may have begun before the wait was set to 0."""

TIMEOUT_S: Final = 600.0
"""Time in seconds after which the wait is restored even if no batch has ended; the next batch shows whether to drop it
again."""

WAIT: Final = "spark.locality.wait"
WAITS: Final = (WAIT, f"{WAIT}.process", f"{WAIT}.node", f"{WAIT}.rack")
"""The wait, and the waits of the locality levels, which override it. The balancer changes a level only if it is set."""

MAX_JOBS: Final = 10
"""Maximum number of Spark jobs to inspect: a batch may consist of several jobs (`foreachBatch`), one of which has the
stateful stage."""

Tasks = Mapping[str, int]
"""Number of tasks of one stage, by executor id."""


class Placement(Protocol):
    """Spark's placement of tasks, and the wait that controls it; see `SparkPlacement`."""

    def last_batch(self, run: StatefulRun) -> Sequence[Tasks]:
        """Return where the tasks of each stateful stage of the newest batch ran; empty if unknown."""
        ...

    def drop_locality_wait(self) -> None:
        """Let every free executor take any task, from the next stage on."""
        ...

    def restore_locality_wait(self) -> None:
        """Undo `drop_locality_wait`."""
        ...


class LocalityBalancer:
    """Balances the tasks of one query; does nothing while they are balanced."""

    def __init__(self, placement: Placement, *, clock: Callable[[], float]) -> None:
        """Create a balancer; it inspects nothing yet.

        Args:
            placement: task placement of the session.
            clock: monotonic clock, in seconds.
        """
        self._placement = placement
        self._clock = clock
        self._balanced: tuple[str, frozenset[str]] | None = None
        self._checked: tuple[frozenset[str], StatefulRun] | None = None
        self._first_batch: int | None = None
        self._dropped_at: float | None = None

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """Check whether the tasks are balanced, in a new run and after executors were added or removed.

        Returns:
            Whether the balancing is complete: the tasks are balanced, or cannot be balanced in time.
        """
        slots = {executor.executor_id: executor.cores for executor in executors}
        there = frozenset(slots)
        if self._dropped_at is not None and self._clock() - self._dropped_at >= TIMEOUT_S:
            self._restore_locality_wait()
        if (run.run_id, there) != self._balanced and (there, run) != self._checked:
            self._checked = there, run
            stages = self._placement.last_batch(run)
            if stages and all(map(there.issuperset, stages)):  # after the loss of an executor, wait for the next batch
                self._evaluate(stages, slots, run)
        return (run.run_id, there) == self._balanced

    def ignore_locality(self) -> None:
        """Let the tasks of released executors run elsewhere from the next batch on, not only after the wait."""
        self._balanced = self._checked = self._first_batch = None
        self._drop_locality_wait()

    def restore(self) -> None:
        """Restore the wait, because the query ends or the balancing is complete."""
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


class SparkPlacement:
    """Task placement of one session."""

    def __init__(self, spark: SparkSession, *, warn: Callable[[str], None]) -> None:
        """Connect to the session's context.

        Args:
            spark: session of the driver.
            warn: called once if Spark does not provide the placement; the balancer then does nothing.
        """
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
