"""Finds the batch boundary of running queries, to end the queries there or to block them there for a moment.

`StreamingQuery.stop()` interrupts the running batch. A query also ends by itself after its batch if its state is
TERMINATED, but only if the state is set at the right moment. If the state is set while Spark plans a batch, Spark
interrupts that batch (`MicroBatchExecution.runBatch`), whose offsets are already logged. The module finds the right
moment with the lock that the thread of the query acquires three times per trigger: to log the offsets of a new batch,
to commit the batch, and to notify threads that wait for progress. The owner of the lock finds the thread in one of
these places:

* In the queue for the lock, with a batch: the thread is about to commit. Set the state and release the lock; the query
  commits and ends.
* In the queue for the lock, without a batch: the thread is about to begin a batch. Release the lock, and wait for the
  commit.
* Asleep, without a batch: the thread waits for its next trigger, after which it reads the state. Set the state. If the
  thread awoke and read the state just before, it comes to the queue; then reset the state, as above.
* Elsewhere: the thread is working. Keep the lock and check again.

A query that is blocked instead of ended stays in the second or third place while the lock is held, because it cannot
begin a batch without the lock. If several queries are blocked, the first ones wait for the last one; if several queries
end, none waits for another. One thread checks all queries in turn.

The module uses `StreamExecution` (`state`, `awaitProgressLock`, `queryExecutionThread`) and `MicroBatchExecutionContext`
(`isCurrentBatchConstructed`) of the JVM, the same from Spark 4.0 to 4.3. Py4J gives each Python thread its own JVM thread, so the lock has an owner.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.control.interfaces import BatchStillRunsError
from airflow_adaptive.job.spark_internals import java_class, spark_object

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.01
"""Interval between checks of the queries' threads, in seconds."""

END_TIMEOUT_MS: Final = 250
"""Time in milliseconds for which the driver waits only for the end of a query, which at most has to commit its batch. Other work in this
time would add to the downtime."""

STOP_TIMEOUT_S: Final = 10.0
"""Time in seconds for which the driver waits for the end of queries whose batches it interrupts."""

WAITING: Final = "Waiting for "
"""Start of the status message of a query that has completed a trigger and waits for the next trigger or for data."""


class ThreadPlace(Enum):
    """Place of a query's thread, as the owner of its lock finds it."""

    COMMITTING = auto()
    """In the queue for the lock, with a batch."""
    BEGINNING = auto()
    """In the queue for the lock, without a batch."""
    ASLEEP = auto()
    """Between two triggers."""
    WORKING = auto()
    """Anywhere else."""


class BatchBoundary:
    """The batch boundary of one running query. One thread uses and releases it."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._query = query
        self._execution = query._jsq.streamingQuery()
        self._state = self._execution.state()
        self._lock = self._execution.awaitProgressLock()
        self._thread = self._execution.queryExecutionThread()
        self._initializing = spark_object(spark, "INITIALIZING")
        self._active = spark_object(spark, "ACTIVE")
        self._terminated = spark_object(spark, "TERMINATED")
        self._milliseconds = java_class(spark, "java.util.concurrent.TimeUnit").MILLISECONDS
        self._locked = False
        self._at_boundary = False
        self._terminated_set = False
        self._terminated_set_while_asleep = False
        self._unsupported = False

    def end(self) -> bool:
        """Check once, and end the query if it is at a boundary. Returns whether it has ended, or does not have this kind of boundary."""
        try:
            if not self._terminated_set and self._set_terminated():
                self._terminated_set = True
                self.release_lock()
                self._wake()
                self._thread.join(END_TIMEOUT_MS)
            return not self._alive()
        except Py4JError:  # not a micro-batch query, or a Spark version with different internals
            self._unsupported = True
            return True

    @property
    def is_to_cut(self) -> bool:
        """Whether the query has not ended at a boundary, so that its batch must be interrupted."""
        return self._unsupported or self._alive()

    @property
    def label(self) -> str:
        """The query in a message."""
        return f"query {self._query.name!r}" if self._query.name else "a query without a name"

    def stop(self) -> None:
        """Stop the query immediately, which interrupts its batch. May block for ever; see `stop_in_threads`."""
        self._query._jsq.stop()

    def block(self) -> bool:
        """Check once, and block the query if it is at a boundary. Returns whether it is blocked. Raises `Py4JError` if it has no boundary."""
        if not self._alive() or self._at_boundary:
            return True
        if not self._take_lock():
            return False
        place = self._place()
        if place is ThreadPlace.COMMITTING:
            self.release_lock()
        self._at_boundary = place is ThreadPlace.BEGINNING or (place is ThreadPlace.ASLEEP and self._has_triggered())
        return self._at_boundary

    def release_lock(self) -> None:
        """Release the lock of the query's thread."""
        if self._locked:
            self._locked = self._at_boundary = False
            with suppress(Py4JError):  # the JVM has exited
                self._lock.unlock()

    def _set_terminated(self) -> bool:
        """Set the state to TERMINATED if this is the right moment. Returns whether it is set."""
        if not self._alive():
            return True
        if self._terminated_set_while_asleep:
            return self._keeps_terminated()
        if not self._locked and self._state.compareAndSet(self._initializing, self._terminated):
            return True
        if not self._take_lock():
            return False
        place = self._place()
        if place in {ThreadPlace.COMMITTING, ThreadPlace.ASLEEP}:
            self._state.set(self._terminated)
            self._terminated_set_while_asleep = place is ThreadPlace.ASLEEP
            return not self._terminated_set_while_asleep or self._keeps_terminated()
        if place is ThreadPlace.BEGINNING:
            self.release_lock()
        return False

    def _keeps_terminated(self) -> bool:
        """Return whether a query that was asleep when the state was set has read the state, or will."""
        if self._asleep():
            return True
        if not self._queued():
            return not self._alive()
        if not self._in_trigger():
            return True  # the thread queues once more at the end of the trigger
        self._state.compareAndSet(self._terminated, self._active)
        self._terminated_set_while_asleep = False
        self.release_lock()
        return False

    def _wake(self) -> None:
        """Wake a query that waits for its next trigger."""
        if not self._in_trigger():
            self.stop()

    def _take_lock(self) -> bool:
        self._locked = self._locked or self._lock.tryLock(round(CHECK_INTERVAL_S * 1000), self._milliseconds)
        return self._locked

    def _place(self) -> ThreadPlace:
        queued = self._queued()  # first: a thread in the queue changes nothing
        if self._has_batch():
            return ThreadPlace.COMMITTING if queued else ThreadPlace.WORKING
        if queued:
            return ThreadPlace.BEGINNING
        return ThreadPlace.ASLEEP if self._asleep() else ThreadPlace.WORKING

    def _alive(self) -> bool:
        return bool(self._thread.isAlive())

    def _queued(self) -> bool:
        return bool(self._lock.hasQueuedThread(self._thread))

    def _asleep(self) -> bool:
        return not self._in_trigger() and str(self._thread.getState().name()) == "TIMED_WAITING"

    def _in_trigger(self) -> bool:
        return bool(self._query._jsq.status().isTriggerActive())

    def _has_triggered(self) -> bool:
        """Return whether the first trigger is complete. Before it, a query may replay a batch without acquiring the lock."""
        return str(self._query._jsq.status().message()).startswith(WAITING)

    def _has_batch(self) -> bool:
        """Return whether a batch has begun and not committed. The context of a past batch stays until the next trigger."""
        context = self._execution.getLatestExecutionContext()
        return context is not None and self._in_trigger() and bool(context.isCurrentBatchConstructed())


def end_at_boundary(boundaries: Sequence[BatchBoundary], timeout_s: float, pause: Callable[[float], None]) -> bool:
    """End queries, each at its next boundary. Queries that reach no boundary in time are stopped with `stop()`.

    An exception of `pause`, for example after the expiry of the lease, ends the attempt.

    Returns:
        Whether all queries ended at a boundary or had ended before. Otherwise the last batch of some was interrupted.

    Raises:
        BatchStillRunsError: a batch does not end although it was interrupted. All other queries have ended.
    """
    try:
        _wait_for_all(boundaries, BatchBoundary.end, timeout_s, pause)
    finally:
        _release_locks(boundaries)
    cut = [boundary for boundary in boundaries if boundary.is_to_cut]
    stopped = stop_in_threads([boundary.stop for boundary in cut], pause)
    running = [boundary.label for boundary, ended in zip(cut, stopped, strict=True) if not ended]
    if running:
        raise BatchStillRunsError(
            f"the batch of {', '.join(running)} did not end within {round(timeout_s + STOP_TIMEOUT_S, 1):g} s of the request, although it was "
            f"interrupted after {round(timeout_s, 1):g} s: the driver is replaced, and the batch runs again"
        )
    return not cut


def stop_in_threads(stops: Sequence[Callable[[], object]], pause: Callable[[float], None] = time.sleep) -> list[bool]:
    """Call functions that stop queries, at the same time. Returns whether each has returned within `STOP_TIMEOUT_S` and without an exception.

    `StreamingQuery.stop()` waits for the thread of the query up to `spark.sql.streaming.stopTimeout`, by default for ever.
    """
    stopped = [False] * len(stops)

    def stop(number: int) -> None:
        try:
            stops[number]()
            stopped[number] = True
        except (Py4JError, PySparkException) as error:
            log.warning("a query has not stopped: %s", error)

    threads = [threading.Thread(target=stop, args=(number,), daemon=True) for number in range(len(stops))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        pause(CHECK_INTERVAL_S)
    return stopped


def act_between_batches(
    boundaries: Sequence[BatchBoundary], timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]
) -> bool:
    """Call a function while no query runs a batch, and let the queries continue. Returns False if no such moment occurs in time.

    The first query at a boundary waits for the last one up to the timeout. An exception of `pause` ends the attempt.
    """
    blocked = False
    try:
        with suppress(Py4JError):
            blocked = _wait_for_all(boundaries, BatchBoundary.block, timeout_s, pause)
        if blocked:
            act()
    finally:
        _release_locks(boundaries)
    return blocked


def _wait_for_all(
    boundaries: Sequence[BatchBoundary],
    step: Callable[[BatchBoundary], bool],
    timeout_s: float,
    pause: Callable[[float], None],
) -> bool:
    """Repeat the step for each boundary until it succeeds for all. Returns False after the timeout."""
    deadline = time.monotonic() + timeout_s
    while any([not step(boundary) for boundary in boundaries]):  # noqa: C419  (take the step for all boundaries)
        if time.monotonic() >= deadline:
            return False
        pause(CHECK_INTERVAL_S)
    return True


def _release_locks(boundaries: Sequence[BatchBoundary]) -> None:
    for boundary in boundaries:
        boundary.release_lock()
