"""The event loop of a simulated process, in virtual time."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, TypeVar

from tests.lab.fleet.kernel.kernel import Event
from tests.lab.fleet.kernel.process import SimulatedProcess
from tests.lab.fleet.kernel.threads import SimulatedExecutor

Result = TypeVar("Result")


class _Callback(asyncio.Handle):
    """A callback that the kernel calls in an event."""

    _loop: asyncio.AbstractEventLoop

    def __call__(self) -> None:
        if self._cancelled:
            return
        events._set_running_loop(self._loop)
        try:
            self._run()
        finally:
            events._set_running_loop(None)


class _Timer(asyncio.TimerHandle, _Callback):
    """A callback at a time.

    Attributes:
        event: the event.
    """

    event: Event


class SimulatedEventLoop(asyncio.AbstractEventLoop):
    """An event loop without network connections, whose callbacks are events of the kernel.

    Attributes:
        failures: contexts of exceptions that no code has handled, as asyncio reports them.
    """

    def __init__(self, process: SimulatedProcess) -> None:
        """Create the event loop of a process."""
        self.failures: list[dict[str, Any]] = []
        self._process = process
        self._kernel = process.kernel
        self._executor = SimulatedExecutor(process.kernel)

    def time(self) -> float:
        """Return the time of the clock of the process that cannot be set, in seconds."""
        return self._process.elapsed()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See `asyncio.AbstractEventLoop`."""
        handle = _Callback(callback, args, self, context)
        self._kernel.at(self._kernel.now, handle, self._process)
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
        handle = _Timer(when, callback, args, self, context)
        handle.event = self._process.at(when, handle)
        return handle

    def _timer_handle_cancelled(self, handle: _Timer) -> None:
        handle.event.cancel()

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


def _set_result(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_exception(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
