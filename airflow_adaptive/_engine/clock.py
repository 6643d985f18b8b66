"""The clock of the machine."""

from __future__ import annotations

import asyncio
import time
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
