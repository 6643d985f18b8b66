"""The event loop of a simulated process, in virtual time."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from airflow_adaptive.testing.fleet.kernel.kernel import Event
from airflow_adaptive.testing.fleet.kernel.process import SimulatedProcess
from airflow_adaptive.testing.fleet.kernel.threads import SimulatedExecutor

Result = TypeVar("Result")


class SimulatedEventLoop(asyncio.AbstractEventLoop):
    """An event loop without network connections, whose callbacks are events of the kernel.

    Attributes:
        failures: contexts of exceptions that no code has handled, as asyncio reports them.
    """

    def __init__(self, process: SimulatedProcess) -> None:
        """Create the event loop of a process."""
        self.failures: list[dict[str, Any]] = []
        self._process = process
        self._executor = SimulatedExecutor(process.kernel)
        self._timers: dict[int, Event] = {}

    def time(self) -> float:
        """Return the time of the clock of the process that cannot be set, in seconds."""
        return self._process.elapsed()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio.AbstractEventLoop`."""
        handle = asyncio.Handle(callback, args, self, context)
        self._process.soon(partial(self._run, handle))
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.AbstractEventLoop`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers[id(handle)] = self._process.at(when, partial(self._run_timer, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        event = self._timers.pop(id(handle), None)
        if event is not None:
            event.cancel()

    def create_future(self) -> asyncio.Future[Any]:
        """See `asyncio.AbstractEventLoop`."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Result] | Generator[Any, None, Result], **options: Any
    ) -> asyncio.Task[Result]:
        """See `asyncio.AbstractEventLoop`."""
        return asyncio.Task(coro, loop=self, **options)

    def run_in_executor(  # type: ignore[override]
        self, executor: None, func: Callable[..., Result], *args: Any
    ) -> asyncio.Future[Result]:
        """Run a function in a thread of the default executor, which has few threads as in Airflow."""
        answer = self.create_future()

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  the caller raises the error
                self.call_soon_threadsafe(_set_exception, answer, error)
            else:
                self.call_soon_threadsafe(_set_result, answer, result)

        self._executor.submit(run)
        return answer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an exception that no code has handled."""
        self.failures.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """See `call_exception_handler`."""
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        """Return False: asyncio needs no debug mode in a simulation."""
        return False

    def is_running(self) -> bool:
        """Return whether the process lives."""
        return self._process.is_alive

    def is_closed(self) -> bool:
        """Return whether the process has ended."""
        return not self._process.is_alive

    def _run_timer(self, handle: asyncio.TimerHandle) -> None:
        self._timers.pop(id(handle), None)
        self._run(handle)

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        events._set_running_loop(self)
        try:
            handle._run()
        finally:
            events._set_running_loop(None)


def _set_result(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_exception(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
