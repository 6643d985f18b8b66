"""An event loop with virtual time, for deterministic simulations of many loops.

The time advances only when no task is ready, so hours take seconds.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from airflow_adaptive._core.ports import ClusterSnapshot
from tests.lab.fakes.cluster import FakeCluster
from tests.lab.fakes.manual_clock import START

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """A selector that advances the virtual time instead of a wait."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Advance the time by the timeout. Return the events that are ready."""
        if timeout is None:
            raise RuntimeError("deadlock: all tasks wait, and no timer is set")
        self.now += max(timeout, 0.0)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for code without threads and without network connections."""

    def __init__(self) -> None:
        """Create a loop whose time is 0."""
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds since the creation of the loop."""
        return self._virtual.now


class VirtualClock:
    """A `Clock` with the virtual time of the running event loop."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        """Start the wall clock at `START`, or ahead of it."""
        self._started = START + ahead

    def now(self) -> datetime:
        """Return the current time, as an aware datetime in UTC."""
        return self._started + timedelta(seconds=self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds since the creation of the loop."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait for a virtual time, in seconds."""
        await asyncio.sleep(seconds)


class DistantCluster:
    """A client of a fake cluster whose polls take a virtual time."""

    def __init__(self, cluster: FakeCluster, clock: VirtualClock, latency_s: float = 0.05) -> None:
        self._cluster = cluster
        self._clock = clock
        self._latency_s = latency_s

    async def snapshot(self) -> ClusterSnapshot:
        """See `ClusterClient`."""
        await self._clock.sleep(self._latency_s)
        return await self._cluster.snapshot()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
