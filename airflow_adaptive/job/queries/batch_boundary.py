"""Finds the batch boundary of running queries: to end them there, or to hold them there for a moment.

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

A query that is blocked instead of ended stands in the second or the third place as long as the lock is kept: without it no
batch is begun. Where several queries are blocked, those that come to a boundary first stand there until the last one does;
where several are ended, none waits for another. One thread looks at all of them in turn.

All of it reaches into the JVM: `StreamExecution` (`state`, `awaitProgressLock`, `queryExecutionThread`) and
`MicroBatchExecutionContext` (`isCurrentBatchConstructed`) of `org.apache.spark.sql.execution.streaming.runtime`,
the same in Spark 4.2 and 4.3. Py4J gives each Python thread a JVM thread of its own, so the lock has an owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.jvm import java_class, scala_object

RUNTIME: Final = "org.apache.spark.sql.execution.streaming.runtime"

CHECK_INTERVAL_S: Final = 0.01
"""Between two looks at the queries' threads."""

END_TIMEOUT_MS: Final = 250
"""A query that is to end has to commit its batch at most: so long nothing else is done, which would be dead time."""

WAITING: Final = "Waiting for "
"""So begins the message of a query that has done a trigger and waits, for the next one or for data."""


class ThreadPlace(Enum):
    """Where the thread of a query is, as seen by whoever holds its lock."""

    COMMITTING = auto()
    """In the queue for the lock, with a batch."""
    BEGINNING = auto()
    """In the queue for the lock, without a batch."""
    ASLEEP = auto()
    """Between two triggers."""
    WORKING = auto()
    """Anywhere else."""


class BatchBoundary:
    """The batch boundary of one running query; to be used, and let go, by one thread."""

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        """Take hold of the query's execution.

        Args:
            spark: the session that it runs in.
            query: started.
        """
        self._query = query
        self._execution = query._jsq.streamingQuery()
        self._state = self._execution.state()
        self._lock = self._execution.awaitProgressLock()
        self._thread = self._execution.queryExecutionThread()
        self._initializing = scala_object(spark, f"{RUNTIME}.INITIALIZING")
        self._active = scala_object(spark, f"{RUNTIME}.ACTIVE")
        self._terminated = scala_object(spark, f"{RUNTIME}.TERMINATED")
        self._milliseconds = java_class(spark, "java.util.concurrent.TimeUnit").MILLISECONDS
        self._locked = False
        self._at_boundary = False
        self._terminated_set = False
        self._terminated_set_while_asleep = False
        self._unsupported = False

    def end(self) -> bool:
        """Come one look nearer to the query's end at a boundary.

        Returns:
            Whether there is nothing to wait for any more: it has ended, or it is a query that has no such boundary.
        """
        try:
            if not self._terminated_set and self._set_terminated():
                self._terminated_set = True
                self.release_lock()
                self._wake()
                self._thread.join(END_TIMEOUT_MS)
            return not self._alive()
        except Py4JError:  # not a micro-batch query, or a Spark whose internals differ
            self._unsupported = True
            return True

    def cut(self) -> bool:
        """Stop the query at once if it has not ended at a boundary; whether it had to be, so that a batch may be cut."""
        if not self._unsupported and not self._alive():
            return False
        self._query.stop()
        return True

    def block(self) -> bool:
        """Come one look nearer to where the query begins no batch before it is let go; whether it stands there.

        Raises:
            Py4JError: not a micro-batch query, or a Spark whose internals differ.
        """
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
        """Let the query's thread have its lock."""
        if self._locked:
            self._locked = self._at_boundary = False
            with suppress(Py4JError):  # the JVM is gone, and the query with it
                self._lock.unlock()

    def _set_terminated(self) -> bool:
        """Set the state if this is the right moment; whether it is set."""
        if not self._alive():
            return True
        if self._terminated_set_while_asleep:
            return self._stays_terminated_set()
        if not self._locked and self._state.compareAndSet(self._initializing, self._terminated):
            return True
        if not self._take_lock():
            return False
        place = self._place()
        if place in {ThreadPlace.COMMITTING, ThreadPlace.ASLEEP}:
            self._state.set(self._terminated)
            self._terminated_set_while_asleep = place is ThreadPlace.ASLEEP
            return not self._terminated_set_while_asleep or self._stays_terminated_set()
        if place is ThreadPlace.BEGINNING:
            self.release_lock()
        return False

    def _stays_terminated_set(self) -> bool:
        """Whether a query that slept when the state was set has seen it, or will."""
        if self._asleep():
            return True
        if not self._queued():
            return not self._alive()
        if not self._in_trigger():
            return True  # it queues once more at its very end
        self._state.compareAndSet(self._terminated, self._active)
        self._terminated_set_while_asleep = False
        self.release_lock()
        return False

    def _wake(self) -> None:
        """A query that waits for its next trigger is not waited for."""
        if not self._in_trigger():
            self._query.stop()

    def _take_lock(self) -> bool:
        self._locked = self._locked or self._lock.tryLock(round(CHECK_INTERVAL_S * 1000), self._milliseconds)
        return self._locked

    def _place(self) -> ThreadPlace:
        queued = self._queued()  # first: a thread that stands in the queue changes nothing any more
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
        """Before its first trigger a query may have a batch to replay, for which it does not ask for the lock."""
        return str(self._query._jsq.status().message()).startswith(WAITING)

    def _has_batch(self) -> bool:
        """Whether a batch is begun and not committed; the context of a past one stays until the next trigger."""
        context = self._execution.getLatestExecutionContext()
        return context is not None and self._in_trigger() and bool(context.isCurrentBatchConstructed())


def end_at_boundary(boundaries: Sequence[BatchBoundary], timeout_s: float, pause: Callable[[float], None]) -> bool:
    """End queries, each at its next boundary; those that reach none in time by `stop()`.

    Args:
        boundaries: of the queries.
        timeout_s: how long their batches may take to their end.
        pause: waits that many seconds; what it raises (the lease is over, say) ends the attempt.

    Returns:
        Whether all ended at a boundary (or had ended before); else the last batch of some may have been cut.
    """
    try:
        _wait_for_all(boundaries, BatchBoundary.end, timeout_s, pause)
    finally:
        _release_locks(boundaries)
    return not any([boundary.cut() for boundary in boundaries])  # noqa: C419  (all are cut, not the first alone)


def act_between_batches(
    boundaries: Sequence[BatchBoundary], timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]
) -> bool:
    """Do something at a moment at which no batch of any query runs, and let the queries go on.

    Args:
        boundaries: of the queries.
        timeout_s: how long the first to reach a boundary may have to wait for the last.
        pause: waits that many seconds; what it raises ends the attempt.
        act: what is to be done; what it raises is raised.

    Returns:
        Whether it was done: there may be no such moment in time.
    """
    try:
        blocked = _all_blocked(boundaries, timeout_s, pause)
        if blocked:
            act()
        return blocked
    finally:
        _release_locks(boundaries)


def _all_blocked(boundaries: Sequence[BatchBoundary], timeout_s: float, pause: Callable[[float], None]) -> bool:
    try:
        return _wait_for_all(boundaries, BatchBoundary.block, timeout_s, pause)
    except Py4JError:
        return False


def _wait_for_all(
    boundaries: Sequence[BatchBoundary],
    step: Callable[[BatchBoundary], bool],
    timeout_s: float,
    pause: Callable[[float], None],
) -> bool:
    """Take the step with each of them, over and over, until it is done with all; False if it was not in time."""
    deadline = time.monotonic() + timeout_s
    while any([not step(boundary) for boundary in boundaries]):  # noqa: C419  (all take the step)
        if time.monotonic() >= deadline:
            return False
        pause(CHECK_INTERVAL_S)
    return True


def _release_locks(boundaries: Sequence[BatchBoundary]) -> None:
    for boundary in boundaries:
        boundary.release_lock()
