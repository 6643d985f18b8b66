"""The clock of the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def elapsed() -> float:
    """Return the seconds of a clock that cannot be set. On Linux, the time of a suspended machine counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SystemClock:
    """The clock of the machine (port `Clock`): the time of day at the start, plus the time that has passed since.

    A change of the machine's time therefore moves no deadline of a running loop. The next loop starts with the new time.
    """

    def __init__(
        self, wall: Callable[[], datetime] = lambda: datetime.now(UTC), elapsed: Callable[[], float] = elapsed
    ) -> None:
        """Read the time of day.

        Args:
            wall: the time of day, with the time zone UTC.
            elapsed: seconds since an arbitrary moment; never set.
        """
        self._elapsed = elapsed
        self._started = wall() - timedelta(seconds=elapsed())

    def now(self) -> datetime:
        """Return the current time, with the time zone UTC."""
        return self._started + timedelta(seconds=self._elapsed())

    @property
    def elapsed(self) -> float:
        """Seconds since an arbitrary moment."""
        return self._elapsed()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
