"""The port of the time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time. Tests replace the clock."""

    def now(self) -> datetime:
        """Return the current time, with the time zone UTC."""
        ...

    @property
    def elapsed(self) -> float:
        """Seconds since an arbitrary moment. Clocks of one process agree on durations, but not on the current time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
