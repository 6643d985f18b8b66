"""An event loop whose time passes only when nobody has anything to do: many loops at once, hours in seconds, always the same."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from airflow_adaptive.testing.fakes.manual_clock import START

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting it moves the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; if there is nothing, as much time has passed as was to be waited."""
        if timeout is None:
            raise RuntimeError("everybody waits for something that will never happen")
        self.now += max(timeout, 0.0)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for code that awaits nothing but its own kind: no threads, no network."""

    def __init__(self) -> None:
        """Time begins at 0."""
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds since the beginning."""
        return self._virtual.now


class VirtualClock:
    """Port `Clock` over the time of the running event loop."""

    def now(self) -> datetime:
        """Aware, UTC."""
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
