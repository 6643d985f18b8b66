"""A clock that a test controls. A sleep advances the clock without a delay, so hours of a loop take milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2013, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(milliseconds=1)


class ManualClock:
    """A `Clock` whose time advances only by `sleep`.

    Attributes:
        ahead: time by which the time of day is ahead; a test that sets the clock changes it.
        longest_step: longest time between two ticks. A longer time would end the lease of a simulated driver that works.
        tick: function that the clock calls after each sleep, to advance the other parts of a simulation.
    """

    longest_step = timedelta(seconds=10)

    def __init__(self, tick: Callable[[], None] | None = None) -> None:
        self._now = START
        self.ahead = timedelta(0)
        self._planned: list[tuple[datetime, Callable[[], object]]] = []
        self.tick = tick or (lambda: None)

    def now(self) -> datetime:
        """Return the current time, as an aware datetime in UTC."""
        return self._now + self.ahead

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return (self._now - START).total_seconds()

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Plan an action for a time, in seconds since the start."""
        self._planned.append((START + timedelta(seconds=seconds), action))

    async def sleep(self, seconds: float) -> None:
        """Advance the time in steps, and run the planned actions that are due."""
        left = max(timedelta(seconds=seconds), SHORTEST)
        while left:
            step = min(left, self.longest_step)
            self._advance(step)
            left -= step
        await asyncio.sleep(0)

    def _advance(self, step: timedelta) -> None:
        self._now += step
        due = [action for moment, action in self._planned if moment <= self._now]
        self._planned = [(moment, action) for moment, action in self._planned if moment > self._now]
        for action in due:
            action()
        self.tick()
