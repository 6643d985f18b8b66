"""Threads for the blocking calls to one storage: a storage that hangs blocks nothing else in the process.

Theory: a blocking call cannot be interrupted. A call that takes longer than its timeout is abandoned, and its thread stays occupied
until the storage answers. Therefore each storage has a limited number of threads of its own, and a circuit breaker: if a call times out and
the storage has answered no other call in the meantime, all calls fail at once, except for one call at a time that checks whether the storage
answers again. If only a part of the storage hangs, such as one job directory or one connection, calls for other parts keep the circuit closed.
Therefore a part may have few overdue calls, their threads are replaced, and a check of this part does not prevent a check of another one.
Threads that are idle for a while end. The threads are daemon threads, because `asyncio.run` and the interpreter join the threads of
`asyncio.to_thread` and of every `ThreadPoolExecutor` before they end.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from functools import partial
from itertools import chain
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary, finalize, ref

from airflow_adaptive._core.ports import JobDirectoryError, PortError

Result = TypeVar("Result")

THREADS: Final = 32
"""Concurrent calls to one storage. At 30 ms per call the threads serve 1,000 calls per second."""

BACKGROUND_SHARE: Final = 8
"""One in so many calls is not urgent, although urgent calls wait, so that a busy process reads the history of its jobs, too."""

MOST_OVERDUE_PER_PART: Final = 2
"""Overdue calls of one part of a storage. Further calls fail until the storage answers one: a job directory that hangs, for example a stale
mount below the base, must not occupy the threads of all jobs."""

IDLE_TIMEOUT_S: Final = 30.0
"""Time after which an idle thread ends, in seconds."""

REPLACEMENTS: Final = 3 * THREADS
"""Threads that replace threads with overdue calls. If all are occupied, the calls wait until the storage answers one of them."""

NO_ANSWER: Final = "check that the storage is reachable"


class End(Enum):
    """Instead of a call: one thread or all threads end."""

    ONE = auto()
    ALL = auto()


class StorageThreads:
    """Runs blocking calls to one storage for the coroutines of one event loop."""

    def __init__(
        self,
        threads: int = THREADS,
        storage: str = "the storage of the job directory",
        error: type[PortError] = JobDirectoryError,
        remedy: str = NO_ANSWER,
    ) -> None:
        """Start no thread before the first call.

        Args:
            threads: maximum number of threads, including threads with an abandoned call that are not replaced.
            storage: name of the storage, for errors.
            error: class of the errors for a storage that does not answer.
            remedy: what a user does if the storage does not answer.
        """
        self._storage = storage
        self._remedy = remedy
        self._error = error
        self._free = threads
        self._idle = 0
        self._least_idle = 0
        """Minimum number of idle threads since the last retirement: the threads that were not needed."""
        self._retirement: asyncio.TimerHandle | None = None
        self._calls: SimpleQueue[partial[None] | End] = SimpleQueue()
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._background: deque[asyncio.Future[None]] = deque()
        self._handovers = 0
        self._is_unresponsive = False
        self._checks: set[bool] = set()
        """For each check that has not ended, whether its part of the storage has an overdue call."""
        self._overdue: dict[asyncio.Future[Any], str] = {}
        """Answer of each overdue call whose thread is replaced -> its part of the storage."""
        finalize(self, self._calls.put, End.ALL)

    @classmethod
    def of(cls, storage: str) -> StorageThreads:
        """Return the threads of a storage for the running event loop; all jobs on the storage share the threads as long as one uses them."""
        return _threads.setdefault(asyncio.get_running_loop(), WeakValueDictionary()).setdefault(storage, cls())

    async def call(
        self, work: Callable[[], Result], timeout_s: float, *, urgent: bool = True, part: str | None = None
    ) -> Result:
        """Run blocking work in a thread.

        Args:
            work: calls the storage.
            timeout_s: time that the work may take, in seconds, without the time in the queue.
            urgent: whether the work takes precedence over work that is not urgent.
            part: part of the storage that the work uses, such as a job directory or a connection, if several parts share the threads.

        Raises:
            PortError: the storage does not answer (an error of the class `error`); whether the storage completes the work is unknown.
        """
        overdue = list(self._overdue.values()).count(part) if part else 0
        if overdue >= MOST_OVERDUE_PER_PART:
            raise self._error(f"{self._storage} has not answered calls for {part!r} since a timeout: {self._remedy}")
        with self._check(has_overdue=bool(overdue)):
            await self._admit(self._urgent if urgent else self._background, timeout_s)
            handovers, answer = self._handovers, self._start(work)
            is_answered = await self._is_answered(answer, timeout_s, part)
        if not is_answered:
            error = self._timeout(timeout_s) if self._handovers > handovers else self._reject_all(timeout_s)
            self._replace(answer, part)
            raise error
        return answer.result()

    @contextmanager
    def _check(self, *, has_overdue: bool) -> Iterator[None]:
        """Let a call check the storage if the circuit is open. Raises an error of the class `error` if another call does."""
        if not self._is_unresponsive:
            yield
            return
        if has_overdue in self._checks or not self._free:
            raise self._error(f"{self._storage} has not answered since a timeout: {self._remedy}")
        self._checks.add(has_overdue)
        try:
            yield
        finally:
            self._checks.discard(has_overdue)

    async def _admit(self, queue: deque[asyncio.Future[None]], timeout_s: float) -> None:
        """Wait for a free thread. Raises an error of the class `error` if no thread gets an answer within the timeout."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await self._wait_for(turn, timeout_s)
        except asyncio.CancelledError:
            if not turn.cancel() and turn.exception() is None:
                self._hand_over()
            raise
        finally:
            queue.remove(turn)

    async def _wait_for(self, turn: asyncio.Future[None], timeout_s: float) -> None:
        """Wait in the queue for as long as the storage answers other calls. The callers of those calls may be gone."""
        while not turn.done():
            handovers = self._handovers
            await asyncio.wait({turn}, timeout=timeout_s)
            if not turn.done() and self._handovers == handovers:
                self._reject_all(timeout_s)
        turn.result()

    async def _is_answered(self, answer: asyncio.Future[Any], timeout_s: float, part: str | None) -> bool:
        try:
            answered, _ = await asyncio.wait({answer}, timeout=timeout_s)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(timeout_s, self._replace, answer, part)
            raise
        return bool(answered)

    def _replace(self, answer: asyncio.Future[Any], part: str | None) -> None:
        """Let other calls have a thread instead of the one that waits for an overdue answer."""
        if part and not answer.done() and len(self._overdue) < REPLACEMENTS:
            self._overdue[answer] = part
            self._hand_over()

    def _start(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        if self._idle:
            self._idle -= 1
            self._least_idle = min(self._least_idle, self._idle)
        else:
            self._start_thread()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        answer.add_done_callback(self._release)
        self._calls.put(partial(_run, contextvars.copy_context(), work, loop, answer))
        return answer

    def _start_thread(self) -> None:
        try:
            Thread(target=_serve, args=(self._calls,), name="airflow-adaptive-storage", daemon=True).start()
        except RuntimeError as error:
            self._hand_over()
            raise self._error(f"no thread can be started for {self._storage}: {error}") from error

    def _release(self, answer: asyncio.Future[Any]) -> None:
        """A thread has its answer, maybe long after the call was abandoned: the storage answers."""
        answer.exception()  # Otherwise asyncio logs the exception of an abandoned call.
        self._is_unresponsive = False
        self._idle += 1
        self._schedule_retirement()
        if self._overdue.pop(answer, None) is None:
            self._hand_over()

    def _schedule_retirement(self) -> None:
        if self._retirement is None and self._idle:
            self._retirement = asyncio.get_running_loop().call_later(IDLE_TIMEOUT_S, _retire, ref(self))

    def retire(self) -> None:
        """End the threads that have been idle since the last retirement."""
        for _ in range(self._least_idle):
            self._calls.put(End.ONE)
        self._idle -= self._least_idle
        self._least_idle, self._retirement = self._idle, None
        self._schedule_retirement()

    def _hand_over(self) -> None:
        """Give a free thread to the next call that waits."""
        self._handovers += 1
        turn = next(self._waiting(), None)
        if turn is None:
            self._free += 1
        else:
            turn.set_result(None)

    def _reject_all(self, timeout_s: float) -> PortError:
        """Open the circuit, and let all calls fail that wait for a thread; return the error."""
        self._is_unresponsive = True
        for turn in self._waiting():
            turn.set_exception(self._timeout(timeout_s))
        return self._timeout(timeout_s)

    def _timeout(self, timeout_s: float) -> PortError:
        return self._error(f"{self._storage} did not answer within {timeout_s:g} s: {self._remedy}")

    def _waiting(self) -> Iterator[asyncio.Future[None]]:
        """Return the calls that wait for a thread, urgent calls mostly first; a canceled call does not wait any more."""
        queues = [self._urgent, self._background]
        if self._handovers % BACKGROUND_SHARE == 0:
            queues.reverse()
        return (turn for turn in chain(*queues) if not turn.done())


_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, StorageThreads]] = WeakKeyDictionary()


def _retire(threads: ReferenceType[StorageThreads]) -> None:
    owner = threads()
    if owner is not None:
        owner.retire()


def _serve(calls: SimpleQueue[partial[None] | End]) -> None:
    """Make calls until this thread, or each thread, has to end. The thread references neither the owner of the queue nor a call that was made."""
    while isinstance(call := calls.get(), partial):
        call()
        del call
    if call is End.ALL:
        calls.put(End.ALL)


def _run(
    context: contextvars.Context,
    work: Callable[[], Result],
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Result],
) -> None:
    report: Callable[[], None]
    try:
        report = partial(answer.set_result, context.run(work))
    except Exception as error:  # noqa: BLE001  the caller raises the error
        report = partial(answer.set_exception, error)
    with suppress(RuntimeError):  # The event loop of an abandoned call is closed.
        loop.call_soon_threadsafe(report)
