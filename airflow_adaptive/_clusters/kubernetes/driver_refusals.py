"""Finds refusals of the API server in the logs of drivers that have no executor, and of drivers that have failed."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_adaptive._clusters.kubernetes.api.errors import ApiError
from airflow_adaptive._clusters.kubernetes.driver.refusal import refusal_at_end, refusal_of_executors
from airflow_adaptive._core.ports import Clock

log = logging.getLogger(__name__)

INTERVAL_S: Final = 5
"""Shortest time between two reads of the log of a driver."""

RECENT_S: Final = 30
"""Age of the lines that are read of a running driver. Spark repeats a refused request every second."""

TIMEOUT_S: Final = 5.0
"""Longest wait for the log of a driver that has ended: a restart must not wait for its explanation."""

CONCURRENT: Final = 8

ReadLog = Callable[[str, Mapping[str, str | int]], Awaitable[str]]
"""Reads the end of the log of a driver; arguments are the name of the pod and parameters of the request. Raises `ApiError`."""


@dataclass(slots=True)
class _Read:
    text: str = ""
    at_s: float = -math.inf
    task: asyncio.Task[None] | None = None


class DriverRefusals:
    """The refusals of the drivers in a namespace."""

    def __init__(self, read_log: ReadLog, clock: Clock) -> None:
        self._read_log = read_log
        self._clock = clock
        self._reads: dict[str, _Read] = {}
        """Name of the pod of a driver -> newest read of its log."""
        self._slots = asyncio.Semaphore(CONCURRENT)

    def of_executors(self, drivers: Iterable[str]) -> Mapping[str, str]:
        """Return why the API server refuses the executors of drivers, as far as it is known. The logs are read in the background.

        Args:
            drivers: pods of all drivers that run without an executor.
        """
        reads = {driver: self._reads.pop(driver) if driver in self._reads else _Read() for driver in drivers}
        self._cancel()
        self._reads = reads
        for driver, read in reads.items():
            if read.task is None and self._clock.elapsed - read.at_s >= INTERVAL_S:
                read.task = asyncio.create_task(self._refresh(driver, read))
        return {driver: read.text for driver, read in reads.items()}

    async def at_end(self, driver: str) -> str:
        """Return the refusal that ended a driver, "" if the log contains none, or cannot be read."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return refusal_at_end(await self._read_log(driver, {}))
        except (ApiError, TimeoutError) as error:
            log.info("The log of %s cannot be searched for a refusal: %s", driver, str(error) or type(error).__name__)
            return ""

    async def close(self) -> None:
        """End the reads that are in progress."""
        tasks = self._cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _cancel(self) -> set[asyncio.Task[None]]:
        tasks = {read.task for read in self._reads.values() if read.task is not None}
        for task in tasks:
            task.cancel()
        return tasks

    async def _refresh(self, driver: str, read: _Read) -> None:
        try:
            async with self._slots:
                read.text = refusal_of_executors(await self._read_log(driver, {"sinceSeconds": RECENT_S}))
        except ApiError as error:
            log.debug("The log of %s cannot be read: %s", driver, error)
        finally:
            read.at_s = self._clock.elapsed
            read.task = None
