"""Access to Airflow's stores that the loops of one process share: rate-limited, with timeouts, outside of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Generic, TypeVar

from airflow_adaptive._airflow.internals import on_this_loop
from airflow_adaptive._airflow.store.control_requests import ChangeMarkers
from airflow_adaptive._core.ports import Clock, StoreUnavailableError
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from airflow_adaptive._engine.rate_limit import RateLimiter

Result = TypeVar("Result")
Content = TypeVar("Content")

REQUEST_INTERVAL = timedelta(milliseconds=500)
"""Interval between two reads of the control requests of a job, while few jobs run."""

RETRY_INTERVAL = timedelta(seconds=2)
"""Pause before an operation that has failed is repeated."""

METRICS_INTERVAL = timedelta(seconds=10)
"""Interval between two writes of the metrics of a job, while few jobs run."""

METRICS_WRITES_PER_SECOND = 4.0
"""Jobs whose metrics are written per second. Each write takes two or three operations."""

REQUEST_READS_PER_SECOND = 10.0
"""Reads of control requests per second, of all jobs together. A read takes two operations of 12-30 ms. A triggerer executes about 45 operations
per second."""


THREADS: Final = 4
"""Concurrent reads, and concurrent writes. Airflow executes the operations of a triggerer one after the other; other threads only replace
threads whose operation hangs."""

READ_TIMEOUT: Final = timedelta(seconds=30)
"""Longest time of a read. Airflow repeats an operation that fails for some seconds."""

WRITE_TIMEOUT: Final = timedelta(minutes=2)
"""Longest time of a write, which consists of up to 15 operations."""

AIRFLOW: Final = "Airflow's API server, or the metadata database behind it,"
"""Name in errors of what contains control requests, published states and XComs."""

CHECK_AIRFLOW: Final = "check both. The job continues meanwhile"

CONNECTION_STORE: Final = "the store of Airflow's connections"
"""Name of the store in errors."""

CHECK_CONNECTIONS: Final = "check Airflow's API server, its metadata database and its secrets backend"


class StoreAccess:
    """Threads and rate limits for Airflow's stores, shared by the loops of one process.

    An operation that hangs occupies one thread until it returns. The reads, the writes and the reads of connections have threads of
    their own, so writes that hang do not delay reads.
    """

    def __init__(self, clock: Clock) -> None:
        self.request_reads = RateLimiter(REQUEST_READS_PER_SECOND, clock)
        self.metrics_writes = RateLimiter(METRICS_WRITES_PER_SECOND, clock)
        self.late_writes: dict[str, object] = {}
        """Job -> identity of the newest write that may have overwritten newer values: a write that was abandoned before its end, or the last
        write of a loop that has ended."""
        self.change_markers = ChangeMarkers(self.read, clock, 2 * REQUEST_INTERVAL)
        self._reads = StorageThreads(THREADS, AIRFLOW, StoreUnavailableError, CHECK_AIRFLOW)
        self._writes = StorageThreads(THREADS, AIRFLOW, StoreUnavailableError, CHECK_AIRFLOW)
        self._connections = StorageThreads(THREADS, CONNECTION_STORE, StoreUnavailableError, CHECK_CONNECTIONS)

    @property
    def is_busy(self) -> bool:
        """Whether the rate limit makes the reads of control requests less frequent than `REQUEST_INTERVAL`."""
        return self.request_reads.round > REQUEST_INTERVAL

    async def read(self, work: Callable[[], Result], *, urgent: bool = True) -> Result:
        """Run a blocking read in a thread for reads; reads that are not urgent wait for the others.

        Raises `StoreUnavailableError`, and the exceptions of the read.
        """
        return await self._reads.call(on_this_loop(work), READ_TIMEOUT.total_seconds(), urgent=urgent)

    async def read_connection(self, name: str, work: Callable[[], Result]) -> Result:
        """Run a blocking read of connections, whose backend may be another one.

        Args:
            name: name of what is read. Reads of one name that hang do not delay the reads of others.
            work: reads the connections, and may ask a service for credentials.

        Raises as `read`.
        """
        return await self._connections.call(on_this_loop(work), READ_TIMEOUT.total_seconds(), part=name)

    async def write(self, work: Callable[[], Result], *, urgent: bool = True) -> Result:
        """Run a blocking write in a thread for writes; writes that are not urgent wait for the others. Raises as `read`."""
        return await self._writes.call(on_this_loop(work), WRITE_TIMEOUT.total_seconds(), urgent=urgent)


class BackgroundWriter(Generic[Content]):
    """Writes the newest documents of a job in the background. Documents that are outdated before their write are skipped."""

    def __init__(self, write: Callable[[Content], Awaitable[bool]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._newest: Content | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_writing(self) -> bool:
        """Whether documents are not written yet."""
        return self._task is not None and not self._task.done()

    def put(self, documents: Content) -> None:
        """Write these documents soon, instead of documents that are not written yet."""
        self._newest = documents
        if not self.is_writing:
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
            if not await self._write(documents):
                await self._clock.sleep(RETRY_INTERVAL.total_seconds())
            elif documents is self._newest:
                self._newest = None
