"""What the loops of one process ask of Airflow's stores: few things at a time, in turn, and without making a loop wait."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from airflow_adaptive.ports import Clock
from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.stores.change_marker import ChangeMarkers

Result = TypeVar("Result")

INBOX_INTERVAL = timedelta(seconds=2)
"""How often an inbox is read while few jobs run."""

FIGURES_INTERVAL = timedelta(seconds=10)
"""How often a job's figures are shown while few jobs run."""

FIGURES_SHOWN = 4.0
"""Jobs whose figures are shown per second; each takes two or three operations."""

INBOX_LOOKS = 10.0
"""Looks per second at the inboxes of all jobs. One costs two operations of 12-30 ms; a triggerer manages about 45 of these a second."""


class StoreTraffic:
    """The way to Airflow's stores that the loops of one process share.

    A triggerer's operations queue up anyway, so there is one thread for what loops wait for, and one for what they do not.
    """

    def __init__(self, clock: Clock) -> None:
        """Nothing is under way yet."""
        self.inboxes = RateLimiter(INBOX_LOOKS)
        self.figures = RateLimiter(FIGURES_SHOWN)
        self.change_markers = ChangeMarkers(self.read, clock, INBOX_INTERVAL)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="airflow-adaptive-reads")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="airflow-adaptive-writes")

    @property
    def busy(self) -> bool:
        """Whether there are so many jobs that their inboxes are read less often than they would like."""
        return self.inboxes.round > INBOX_INTERVAL

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run a blocking reading in its thread."""
        return await _run(self._reader, work)

    async def write(self, work: Callable[[], Result]) -> Result:
        """Run a blocking writing in its thread."""
        return await _run(self._writer, work)

    def close(self) -> None:
        """Let the threads go."""
        self._reader.shutdown(wait=False)
        self._writer.shutdown(wait=False)


async def _run(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, contextvars.copy_context().run, work)


class Mirror:
    """Shows the newest view of a job in the background; one that is outdated before it was shown is skipped."""

    def __init__(self, show: Callable[[Mapping[str, Any]], bool], traffic: StoreTraffic, clock: Clock) -> None:
        """Nothing is shown yet.

        Args:
            show: does it, blocking; False if it has to be tried again.
            traffic: the way to the store.
            clock: for the pause before another try.
        """
        self._show = show
        self._traffic = traffic
        self._clock = clock
        self._newest: Mapping[str, Any] | None = None
        self._showing: asyncio.Task[None] | None = None

    def publish(self, view: Mapping[str, Any]) -> None:
        """Show this soon."""
        self._newest = view
        if self._showing is None or self._showing.done():
            self._showing = asyncio.create_task(self._work())

    async def finish(self, patience: timedelta) -> None:
        """Wait until all is shown, but not longer than this."""
        if self._showing is not None:
            await asyncio.wait([self._showing], timeout=patience.total_seconds())

    def stop(self) -> None:
        """Show no more."""
        if self._showing is not None:
            self._showing.cancel()

    async def _work(self) -> None:
        while (view := self._newest) is not None:
            if not await self._traffic.write(partial(self._show, view)):
                await self._clock.sleep(INBOX_INTERVAL.total_seconds())
            elif view is self._newest:
                self._newest = None
