"""What happens to the loops that the tests of killed loops intercept: a loop is frozen at one of its changes, or its clock is set."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from tests.lab.fakes.manual_clock import ManualClock
from tests.support.runtime.loop_kill_simulation import Call

CHANGES = frozenset({"create", "record", "compact", "submit", "kill", "clean_up"})
"""Calls to ports that change external systems."""


class SetClock:
    """A clock that was set."""

    def __init__(self, clock: ManualClock, ahead: timedelta) -> None:
        self._clock = clock
        self._ahead = ahead

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    @property
    def elapsed(self) -> float:
        return self._clock.elapsed

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class Freezer:
    """Stops a loop at one of its changes, before or after it, until it is thawed; what it changes then is counted.

    A compaction does not count, because it removes what the other loop would remove, too.
    """

    def __init__(self, at: int, *, after: bool) -> None:
        self.at = at
        self._changes_left = at
        self._after = after
        self.frozen = asyncio.Event()
        self.thawed = asyncio.Event()
        self.changes_since = 0

    async def __call__(self, name: str, call: Call) -> Any:
        stops = name in CHANGES and self._changes_left == 0
        self._changes_left -= name in CHANGES
        if stops and not self._after:
            await self._freeze()
        self.changes_since += name in CHANGES - {"compact"} and self.thawed.is_set()
        answer = await call()
        if stops and self._after:
            await self._freeze()
        return answer

    async def _freeze(self) -> None:
        self.frozen.set()
        await self.thawed.wait()
