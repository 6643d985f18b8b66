"""The clock of the machine, and the hints that end a pause of a loop before its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The clock of the machine (port `Clock`): the time of day at the start, plus the time that has passed since.

    A change of the machine's time therefore moves no deadline of a running loop. The next loop starts with the new time.
    """

    def __init__(self) -> None:
        self._started = datetime.now(UTC) - timedelta(seconds=self.elapsed)

    def now(self) -> datetime:
        """Return the current time, with the time zone UTC."""
        return self._started + timedelta(seconds=self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds of a clock that cannot be set. On Linux, the time of a suspended machine counts."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Hint:
    """Tells the loop of a job that it may observe something new: its next cycle begins at once. A hint does not change what the loop decides."""

    def __init__(self) -> None:
        self._is_given = False
        self._pause: asyncio.Timeout | None = None

    def give(self) -> None:
        """End the pause of the loop, or its next pause."""
        if not self._is_given and self._pause is not None:
            self._pause.reschedule(0)
        self._is_given = True

    async def wait(self, pause: Awaitable[None]) -> bool:
        """Wait for the end of a pause, or for a hint. Return whether there was one."""
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(0 if self._is_given else None) as self._pause:
                    await pause
            finally:  # also if the loop is canceled
                is_given, self._is_given, self._pause = self._is_given, False, None
        return is_given
