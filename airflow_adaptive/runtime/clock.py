"""The wall clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def elapsed() -> float:
    """Seconds that nobody can set, the time of a suspended machine included where the system tells it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SystemClock:
    """The machine's clock (port `Clock`): what it showed at first, and the time that has passed since.

    So a clock that is set while a loop runs moves no deadline of it; the next loop starts from what it shows then.
    """

    def __init__(
        self, wall: Callable[[], datetime] = lambda: datetime.now(UTC), elapsed: Callable[[], float] = elapsed
    ) -> None:
        """Look at the clock.

        Args:
            wall: the time of day, aware, UTC.
            elapsed: seconds since whenever; never set.
        """
        self._elapsed = elapsed
        self._started = wall() - timedelta(seconds=elapsed())

    def now(self) -> datetime:
        """Aware, UTC."""
        return self._started + timedelta(seconds=self._elapsed())

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
