"""Ends a query exactly at a batch boundary: every batch that was begun is committed, none has to be replayed.

`StreamingQuery.stop()` cuts the batch that runs. A query also ends by itself, after its batch, once its state is
TERMINATED; but only if that is set at the right moment. Set while a batch is being planned, it makes Spark interrupt
that batch (`MicroBatchExecution.runBatch`), whose offsets are in the log already. The right moment is found with the
lock that the query's thread takes three times per trigger: to log the offsets of a new batch, to commit the batch, and
to tell those who wait for progress. Whoever holds it finds the thread in one of these places:

* in the queue for the lock, with a batch: it comes to commit. Set the state, let it go: it commits and ends.
* in the queue for the lock, without a batch: it comes to begin one. Let it go and catch it at the commit.
* asleep, without a batch: it waits for its next trigger, after which it looks at the state. Set the state; if it awoke
  and looked just before, it comes to the queue: then take the state back, as above.
* elsewhere: it is at work. Keep the lock and look again.

All of it reaches into the JVM: `StreamExecution` (`state`, `awaitProgressLock`, `queryExecutionThread`) and
`MicroBatchExecutionContext` (`isCurrentBatchConstructed`) of `org.apache.spark.sql.execution.streaming.runtime`,
the same in Spark 4.2 and 4.3. Py4J gives each Python thread a JVM thread of its own, so the lock has an owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.jvm import java_class, scala_object

RUNTIME: Final = "org.apache.spark.sql.execution.streaming.runtime"

LOOK_INTERVAL_S: Final = 0.01
"""Between two looks at the query's thread; the dead time of a restart has it once at most."""


class BatchBoundary:
    """Ends one running query."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, *, pause: Callable[[float], None]) -> None:
        """Take hold of the query's execution.

        Args:
            spark: the session that it runs in.
            query: started.
            pause: waits that many seconds; what it raises (the lease is over, say) ends the attempt.
        """
        self._query = query
        self._pause = pause
        self._execution = query._jsq.streamingQuery()
        self._state = self._execution.state()
        self._lock = self._execution.awaitProgressLock()
        self._thread = self._execution.queryExecutionThread()
        self._initializing = scala_object(spark, f"{RUNTIME}.INITIALIZING")
        self._active = scala_object(spark, f"{RUNTIME}.ACTIVE")
        self._terminated = scala_object(spark, f"{RUNTIME}.TERMINATED")
        self._milliseconds = java_class(spark, "java.util.concurrent.TimeUnit").MILLISECONDS

    def end(self, timeout_s: float) -> bool:
        """End the query at a boundary, or by `stop()` if none is reached in time.

        Args:
            timeout_s: how long its batch may take to its end.

        Returns:
            Whether it ended at a boundary (or had ended before); else its last batch may have been cut.
        """
        deadline = time.monotonic() + timeout_s
        try:
            reached = self._mark(deadline) and self._ended(deadline)
        except Py4JError:  # not a micro-batch query, or a Spark whose internals differ
            reached = False
        if not reached:
            self._query.stop()
        return reached

    def _mark(self, deadline: float) -> bool:
        """Set the state at the right moment; False if there was none until the deadline."""
        while self._thread.isAlive() and time.monotonic() < deadline:
            if self._state.compareAndSet(self._initializing, self._terminated):
                return True
            if self._lock.tryLock(round(LOOK_INTERVAL_S * 1000), self._milliseconds):
                try:
                    if self._mark_locked(deadline):
                        return True
                finally:
                    self._lock.unlock()
            self._pause(LOOK_INTERVAL_S)
        return not self._thread.isAlive()

    def _mark_locked(self, deadline: float) -> bool:
        while self._thread.isAlive() and time.monotonic() < deadline:
            queued = self._queued()  # first: a thread that stands in the queue changes nothing any more
            if self._has_batch():
                if queued:
                    self._state.set(self._terminated)
                    return True
            elif queued:
                return False
            elif self._asleep():
                return self._mark_asleep(deadline)
            self._pause(LOOK_INTERVAL_S)
        return not self._thread.isAlive()

    def _mark_asleep(self, deadline: float) -> bool:
        self._state.set(self._terminated)
        while self._thread.isAlive() and not self._asleep() and time.monotonic() < deadline:
            if self._queued():
                if not self._in_trigger():
                    return True  # it queues once more at its very end
                self._state.compareAndSet(self._terminated, self._active)
                return False
            self._pause(LOOK_INTERVAL_S)
        return True

    def _queued(self) -> bool:
        return bool(self._lock.hasQueuedThread(self._thread))

    def _asleep(self) -> bool:
        return not self._in_trigger() and str(self._thread.getState().name()) == "TIMED_WAITING"

    def _in_trigger(self) -> bool:
        return bool(self._query._jsq.status().isTriggerActive())

    def _has_batch(self) -> bool:
        """Whether a batch is begun and not committed; the context of a past one stays until the next trigger."""
        context = self._execution.getLatestExecutionContext()
        return context is not None and self._in_trigger() and bool(context.isCurrentBatchConstructed())

    def _ended(self, deadline: float) -> bool:
        """Wait for the thread's end; one that waits for its next trigger is woken for it."""
        if not self._in_trigger():
            self._query.stop()
        while self._thread.isAlive() and time.monotonic() < deadline:
            self._pause(LOOK_INTERVAL_S)
        return not self._thread.isAlive()
