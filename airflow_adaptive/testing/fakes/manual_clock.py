"""A clock that a test owns: sleeping moves it, so a loop runs through hours in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2013, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(milliseconds=1)


class ManualClock:
    """Port `Clock`; `now` is the only time there is.

    Attributes:
        tick: called after each sleep, to let the rest of a simulated world act.
    """

    def __init__(self, tick: Callable[[], None] | None = None) -> None:
        self._now = START
        self._planned: list[tuple[datetime, Callable[[], object]]] = []
        self.tick = tick or (lambda: None)

    def now(self) -> datetime:
        """Aware, UTC."""
        return self._now

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return (self._now - START).total_seconds()

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something when so many seconds have passed since the start."""
        self._planned.append((START + timedelta(seconds=seconds), action))

    async def sleep(self, seconds: float) -> None:
        """Let the time pass, with everything that was planned for it."""
        self._now += max(timedelta(seconds=seconds), SHORTEST)
        due = [action for moment, action in self._planned if moment <= self._now]
        self._planned = [(moment, action) for moment, action in self._planned if moment > self._now]
        for action in due:
            action()
        self.tick()
        await asyncio.sleep(0)
