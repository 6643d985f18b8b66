"""Threads for the blocking calls to one storage: a storage that hangs blocks nothing else in the process.

Theory: a blocking call cannot be interrupted. A call that takes longer than its timeout is abandoned, and its thread stays occupied
until the storage answers. Therefore each storage has a limited number of threads of its own, and a circuit breaker: after a timeout
all calls fail at once, except for one call at a time that checks whether the storage answers again. If only one job directory hangs,
calls of other jobs close the circuit. Therefore a job directory may have few overdue calls, their threads are replaced, and a check in
this directory does not prevent a check in another one. The threads are daemon threads, because `asyncio.run` and the interpreter join the threads of `asyncio.to_thread` and of every `ThreadPoolExecutor`
before they end.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

from airflow_adaptive.ports import JobDirectoryError, PortError

Result = TypeVar("Result")

THREADS: Final = 32
"""Concurrent calls to one storage. At 30 ms per call the threads serve 1,000 calls per second."""

BACKGROUND_SHARE: Final = 8
"""One in so many calls is not urgent, although urgent calls wait, so that a busy process reads the history of its jobs, too."""

MOST_OVERDUE_PER_DIRECTORY: Final = 2
"""Overdue calls of one job directory. Further calls fail until the storage answers one: a job directory that hangs, for example a stale
mount below the base, must not occupy the threads of all jobs."""

REPLACEMENTS: Final = 3 * THREADS
"""Threads that replace threads with overdue calls. If all are occupied, the calls wait until the storage answers one of them."""

NO_ANSWER: Final = "check that the storage is reachable"


class StorageThreads:
    """Runs blocking calls to one storage for the coroutines of one event loop."""

    def __init__(
        self,
        threads: int = THREADS,
        storage: str = "the storage of the job directory",
        error: type[PortError] = JobDirectoryError,
    ) -> None:
        """Start no thread before the first call.

        Args:
            threads: maximum number of threads, including threads with an abandoned call that are not replaced.
            storage: name of the storage, for errors.
            error: class of the errors for a storage that does not answer.
        """
        self._storage = storage
        self._error = error
        self._free = threads
        self._idle = 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._background: deque[asyncio.Future[None]] = deque()
        self._handovers = 0
        self._is_unresponsive = False
        self._checks: set[bool] = set()
        """For each check that has not ended, whether its job directory has an overdue call."""
        self._overdue: dict[asyncio.Future[Any], str] = {}
        """Answer of each overdue call whose thread is replaced -> its job directory."""
        weakref.finalize(self, self._calls.put, None)

    @classmethod
    def of(cls, storage: str) -> StorageThreads:
        """Return the threads of a storage for the running event loop; all jobs on the storage share the threads."""
        return _threads.setdefault(asyncio.get_running_loop(), defaultdict(cls))[storage]

    async def call(
        self, work: Callable[[], Result], timeout_s: float, *, urgent: bool = True, directory: str | None = None
    ) -> Result:
        """Run blocking work in a thread.

        Args:
            work: calls the storage.
            timeout_s: time that the work may take, in seconds, without the time in the queue.
            urgent: whether the work takes precedence over work that is not urgent.
            directory: job directory that the work uses, if several job directories share the threads.

        Raises:
            PortError: the storage does not answer (an error of the class `error`); whether the storage completes the work is unknown.
        """
        overdue = list(self._overdue.values()).count(directory) if directory else 0
        if overdue >= MOST_OVERDUE_PER_DIRECTORY:
            raise self._error(f"{self._storage} has not answered calls for {directory!r} since a timeout: {NO_ANSWER}")
        with self._check(has_overdue=bool(overdue)):
            await self._admit(self._urgent if urgent else self._background, timeout_s)
            answer = self._start(work)
            is_answered = await self._is_answered(answer, timeout_s, directory)
        if not is_answered:
            error = self._reject_all(timeout_s)
            self._replace(answer, directory)
            raise error
        return answer.result()

    @contextmanager
    def _check(self, *, has_overdue: bool) -> Iterator[None]:
        """Let a call check the storage if the circuit is open. Raises an error of the class `error` if another call does."""
        if not self._is_unresponsive:
            yield
            return
        if has_overdue in self._checks or not self._free:
            raise self._error(f"{self._storage} has not answered since a timeout: {NO_ANSWER}")
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

    async def _is_answered(self, answer: asyncio.Future[Any], timeout_s: float, directory: str | None) -> bool:
        try:
            answered, _ = await asyncio.wait({answer}, timeout=timeout_s)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(timeout_s, self._replace, answer, directory)
            raise
        return bool(answered)

    def _replace(self, answer: asyncio.Future[Any], directory: str | None) -> None:
        """Let other calls have a thread instead of the one that waits for an overdue answer."""
        if directory and not answer.done() and len(self._overdue) < REPLACEMENTS:
            self._overdue[answer] = directory
            self._hand_over()

    def _start(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        if self._idle:
            self._idle -= 1
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
        if self._overdue.pop(answer, None) is None:
            self._hand_over()

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
        error = f"{self._storage} did not answer within {timeout_s:g} s: {NO_ANSWER}"
        for turn in self._waiting():
            turn.set_exception(self._error(error))
        return self._error(error)

    def _waiting(self) -> Iterator[asyncio.Future[None]]:
        """Return the calls that wait for a thread, urgent calls mostly first; a canceled call does not wait any more."""
        queues = [self._urgent, self._background]
        if self._handovers % BACKGROUND_SHARE == 0:
            queues.reverse()
        return (turn for turn in chain(*queues) if not turn.done())


_threads: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, StorageThreads]] = weakref.WeakKeyDictionary()


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    """Make calls until the owner of the queue is gone. The thread references neither the owner nor a call that was made."""
    for call in iter(calls.get, None):
        call()
        del call
    calls.put(None)  # for the other threads


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
