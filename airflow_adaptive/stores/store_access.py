"""Access to Airflow's stores that the loops of one process share: rate-limited, one operation at a time, outside of the event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

from airflow_adaptive.ports import Clock
from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.stores.change_marker import ChangeMarkers

Result = TypeVar("Result")
Content = TypeVar("Content")

REQUEST_INTERVAL = timedelta(seconds=2)
"""Interval between two reads of the control requests of a job, while few jobs run."""

METRICS_INTERVAL = timedelta(seconds=10)
"""Interval between two writes of the metrics of a job, while few jobs run."""

METRICS_WRITES_PER_SECOND = 4.0
"""Jobs whose metrics are written per second. Each write takes two or three operations."""

REQUEST_READS_PER_SECOND = 10.0
"""Reads of control requests per second, of all jobs together. A read takes two operations of 12-30 ms. A triggerer executes about 45 operations
per second."""


class StoreAccess:
    """Threads and rate limits for Airflow's stores, shared by the loops of one process.

    Airflow executes the operations of a triggerer one after the other. Therefore one thread reads, for loops that wait for the
    result, and one thread writes, for loops that do not wait.
    """

    def __init__(self, clock: Clock) -> None:
        """Start no thread before the first operation."""
        self.request_reads = RateLimiter(REQUEST_READS_PER_SECOND, clock)
        self.metrics_writes = RateLimiter(METRICS_WRITES_PER_SECOND, clock)
        self.change_markers = ChangeMarkers(self.read, clock, REQUEST_INTERVAL)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="airflow-adaptive-reads")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="airflow-adaptive-writes")

    @property
    def is_busy(self) -> bool:
        """Whether the rate limit makes the reads of control requests less frequent than `REQUEST_INTERVAL`."""
        return self.request_reads.round > REQUEST_INTERVAL

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run a blocking read in the thread for reads."""
        return await _run(self._reader, work)

    async def write(self, work: Callable[[], Result]) -> Result:
        """Run a blocking write in the thread for writes."""
        return await _run(self._writer, work)

    def close(self) -> None:
        """Shut the threads down."""
        self._reader.shutdown(wait=False)
        self._writer.shutdown(wait=False)


async def _run(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, contextvars.copy_context().run, work)


class BackgroundWriter(Generic[Content]):
    """Writes the newest documents of a job in the background. Documents that are outdated before their write are skipped."""

    def __init__(self, write: Callable[[Content], bool], access: StoreAccess, clock: Clock) -> None:
        """Create a writer without documents.

        Args:
            write: writes the documents; blocks. Returns False if the write must be repeated.
            access: access to the store.
            clock: clock for the delay before a repeated write.
        """
        self._write = write
        self._access = access
        self._clock = clock
        self._newest: Content | None = None
        self._task: asyncio.Task[None] | None = None

    def put(self, documents: Content) -> None:
        """Write these documents soon, instead of documents that are not written yet."""
        self._newest = documents
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def finish(self, grace_period: timedelta) -> None:
        """Wait until the newest documents are written, or until the grace period ends."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=grace_period.total_seconds())

    def stop(self) -> None:
        """Cancel the write."""
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        while (documents := self._newest) is not None:
            if not await self._access.write(partial(self._write, documents)):
                await self._clock.sleep(REQUEST_INTERVAL.total_seconds())
            elif documents is self._newest:
                self._newest = None
