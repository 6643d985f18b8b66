"""Queries end, or are blocked, only between two batches. The thread of a query and its lock are simulated."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from airflow_adaptive.job.control.interfaces import BatchStillRunsError
from airflow_adaptive.job.queries import batch_boundary
from airflow_adaptive.job.queries.batch_boundary import (
    WAITING,
    BatchBoundary,
    act_between_batches,
    end_at_boundary,
)
from airflow_adaptive.job.spark_internals import class_name

VERSION = "4.3.0"

INITIALIZING, ACTIVE, TERMINATED = "INITIALIZING", "ACTIVE", "TERMINATED"


class SimulatedQuery:
    """A micro-batch query: its state, its lock and its thread.

    Attributes:
        has_batch: whether a batch has begun and not committed.
        queued: whether the thread waits for the lock.
        in_trigger: whether the thread is in a trigger.
        sleeps: whether the thread waits for a time.
        locked_by_thread: whether the thread owns the lock.
        micro_batch: whether the query has the internals of a micro-batch query.
    """

    def __init__(self, *, state: str = ACTIVE, name: str | None = "daily") -> None:
        self.state = state
        self.name = name
        self.alive = True
        self.stopped = False
        self.has_batch = self.queued = self.sleeps = self.locked_by_thread = False
        self.in_trigger = True
        self.micro_batch = True
        self.message = WAITING + "data to arrive"
        self.owned = False
        self._jsq = SimpleNamespace(streamingQuery=lambda: self, status=lambda: self)

    # ---- places of the thread ----

    def commits(self) -> SimulatedQuery:
        self.has_batch, self.queued, self.in_trigger, self.sleeps = True, True, True, False
        return self

    def begins(self) -> SimulatedQuery:
        self.has_batch, self.queued, self.in_trigger, self.sleeps = False, True, True, False
        return self

    def sleeps_between_triggers(self) -> SimulatedQuery:
        self.has_batch, self.queued, self.in_trigger, self.sleeps = False, False, False, True
        return self

    def works(self) -> SimulatedQuery:
        self.has_batch, self.queued, self.in_trigger, self.sleeps = True, False, True, False
        return self

    # ---- `StreamExecution` ----

    def awaitProgressLock(self) -> Any:
        return SimpleNamespace(tryLock=self.try_lock, unlock=self.unlock, hasQueuedThread=lambda _: self.queued)

    def queryExecutionThread(self) -> Any:
        return SimpleNamespace(isAlive=lambda: self.alive, join=self.join, getState=self.thread_state)

    def getLatestExecutionContext(self) -> Any:
        return SimpleNamespace(isCurrentBatchConstructed=lambda: self.has_batch)

    def isTriggerActive(self) -> bool:
        return self.in_trigger

    def stop(self) -> None:
        self.stopped, self.alive = True, False

    def try_lock(self, *_: object) -> bool:
        if not self.micro_batch:
            raise Py4JError("no such method")
        self.owned = not self.locked_by_thread
        return self.owned

    def unlock(self) -> None:
        assert self.owned
        self.owned = False

    def join(self, _: int) -> None:
        """The thread goes on without the lock, and ends if it reads the state TERMINATED."""
        assert not self.owned
        if self.state == TERMINATED and not self.stopped:
            self.alive = False

    def thread_state(self) -> Any:
        return SimpleNamespace(name=lambda: "TIMED_WAITING" if self.sleeps else "RUNNABLE")


class AtomicState:
    """`StreamExecution.state`."""

    def __init__(self, query: SimulatedQuery) -> None:
        self._query = query

    def set(self, state: str) -> None:
        assert self._query.owned
        self._query.state = state

    def compareAndSet(self, expected: str, state: str) -> bool:
        if self._query.state != expected:
            return False
        self._query.state = state
        return True


def boundary(query: SimulatedQuery) -> BatchBoundary:
    names = [INITIALIZING, ACTIVE, TERMINATED]
    objects: dict[str, Any] = {f"{class_name(name, VERSION)}$": SimpleNamespace(**{"MODULE$": name}) for name in names}
    objects["java.util.concurrent.TimeUnit"] = SimpleNamespace(MILLISECONDS="ms")
    spark: Any = SimpleNamespace(version=VERSION, _jvm=SimpleNamespace(**objects))
    execution: Any = SimpleNamespace(
        **{
            name: getattr(query, name)
            for name in ("awaitProgressLock", "queryExecutionThread", "getLatestExecutionContext")
        },
        state=lambda: AtomicState(query),
    )
    jsq = SimpleNamespace(streamingQuery=lambda: execution, status=query_status(query), stop=query.stop)
    streaming: Any = SimpleNamespace(name=query.name, _jsq=jsq)
    return BatchBoundary(spark, streaming)


def query_status(query: SimulatedQuery) -> Any:
    return lambda: SimpleNamespace(isTriggerActive=query.isTriggerActive, message=lambda: query.message)


def no_pause(_: float) -> None:
    """Nothing happens in the meantime."""


# ---- end ------------------------------------------------------------------------------------------------------------


def test_query_that_commits_a_batch_ends_with_it():
    query = SimulatedQuery().commits()
    assert boundary(query).end()
    assert (query.state, query.stopped, query.owned) == (TERMINATED, False, False)


def test_query_that_begins_a_batch_ends_only_when_it_commits_the_batch():
    query = SimulatedQuery().begins()
    found = boundary(query)
    assert not found.end()
    assert (query.state, query.owned) == (ACTIVE, False)
    query.commits()
    assert found.end()


def test_query_between_two_triggers_is_woken_and_ends():
    query = SimulatedQuery().sleeps_between_triggers()
    assert boundary(query).end()
    assert (query.state, query.stopped, query.owned) == (TERMINATED, True, False)


def test_query_that_awakes_while_its_state_is_set_runs_its_batch_first():
    query = SimulatedQuery().sleeps_between_triggers()
    found = boundary(query)
    asleep = SimpleNamespace(name=lambda: "TIMED_WAITING")

    def awakes() -> Any:
        query.begins()
        return asleep

    found._thread.getState = awakes
    assert not found.end()
    assert (query.state, query.owned) == (ACTIVE, False)
    query.commits()
    assert found.end()


def test_query_that_works_keeps_running_and_the_lock_is_kept():
    query = SimulatedQuery().works()
    found = boundary(query)
    assert not found.end()
    assert (query.state, query.owned) == (ACTIVE, True)
    found.release_lock()
    assert not query.owned


def test_query_whose_thread_owns_the_lock_keeps_running():
    query = SimulatedQuery().commits()
    query.locked_by_thread = True
    assert not boundary(query).end()
    assert query.state == ACTIVE


def test_query_that_initializes_ends_without_the_lock():
    query = SimulatedQuery(state=INITIALIZING).works()
    query.locked_by_thread = True
    assert boundary(query).end()


def test_query_that_has_ended_needs_no_end():
    query = SimulatedQuery()
    query.alive = False
    found = boundary(query)
    assert found.end()
    assert not found.is_to_cut


def test_query_without_micro_batches_has_no_boundary_and_is_stopped():
    query = SimulatedQuery().works()
    query.micro_batch = False
    assert not end_at_boundary([boundary(query)], 60.0, no_pause)
    assert query.stopped


def test_queries_end_each_at_its_own_boundary():
    first, second = SimulatedQuery().commits(), SimulatedQuery().works()

    def second_commits(_: float) -> None:
        second.commits()

    assert end_at_boundary([boundary(first), boundary(second)], 60.0, second_commits)
    assert (first.stopped, second.stopped) == (False, False)


def test_query_that_reaches_no_boundary_in_time_is_stopped():
    query = SimulatedQuery().works()
    assert not end_at_boundary([boundary(query)], 0.0, no_pause)
    assert (query.stopped, query.owned) == (True, False)


def test_batch_that_does_not_end_is_named_and_all_other_queries_are_stopped(monkeypatch):
    monkeypatch.setattr(batch_boundary, "STOP_TIMEOUT_S", 0.5)
    wedged, failing = SimulatedQuery().works(), SimulatedQuery(name=None).works()
    others = [SimulatedQuery().works(), SimulatedQuery().works()]
    never = threading.Event()
    wedged.stop = lambda: [never.wait()]  # type: ignore[method-assign,assignment]

    def fails() -> None:
        raise Py4JError("failed to stop within 10000 milliseconds")

    failing.stop = fails  # type: ignore[method-assign]
    with pytest.raises(BatchStillRunsError) as raised:
        end_at_boundary([boundary(query) for query in (wedged, others[0], failing, others[1])], 0.0049, time.sleep)
    never.set()
    assert str(raised.value) == (
        "the batch of query 'daily', a query without a name did not end within 0.5 s of the request, although it was interrupted after 0 s: "
        "the driver is replaced, and the batch runs again"
    )
    assert [query.stopped for query in others] == [True, True]


def test_locks_are_released_when_the_lease_expires_during_the_wait():
    query = SimulatedQuery().works()

    def expires(_: float) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        end_at_boundary([boundary(query)], 60.0, expires)
    assert (query.stopped, query.owned) == (False, False)


# ---- block ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [SimulatedQuery.begins, SimulatedQuery.sleeps_between_triggers])
def test_query_without_a_batch_is_blocked_while_the_function_runs(place):
    query = place(SimulatedQuery())
    locked = []
    assert act_between_batches([boundary(query)], 60.0, no_pause, lambda: locked.append(query.owned))
    assert locked == [True]
    assert (query.owned, query.state) == (False, ACTIVE)


def test_first_query_at_a_boundary_waits_for_the_last_one():
    first, second = SimulatedQuery().begins(), SimulatedQuery().commits()
    locked = []

    def next_batch(_: float) -> None:
        assert first.owned
        assert not second.owned, "a query that commits its batch must get the lock"
        second.begins()

    assert act_between_batches(
        [boundary(first), boundary(second)], 60.0, next_batch, lambda: locked.append((first.owned, second.owned))
    )
    assert locked == [(True, True)]


def test_query_before_its_first_trigger_is_not_at_a_boundary():
    query = SimulatedQuery().sleeps_between_triggers()
    query.message = "Initializing sources"
    assert not act_between_batches([boundary(query)], 0.0, no_pause, pytest.fail)
    assert not query.owned


def test_query_that_has_ended_does_not_prevent_the_call():
    query = SimulatedQuery()
    query.alive = False
    called = []
    assert act_between_batches([boundary(query)], 60.0, no_pause, lambda: called.append(1))
    assert called == [1]


def test_query_without_micro_batches_cannot_be_blocked():
    query = SimulatedQuery().begins()
    query.micro_batch = False
    assert not act_between_batches([boundary(query)], 60.0, no_pause, pytest.fail)


def test_locks_are_released_when_the_function_fails():
    query = SimulatedQuery().begins()

    def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        act_between_batches([boundary(query)], 60.0, no_pause, fails)
    assert not query.owned
