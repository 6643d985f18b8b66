"""How often the loops of one process look: as often as each likes while they are few, in turn when they are many."""

from __future__ import annotations

from datetime import datetime, timedelta

GOLDEN_RATIO = 0.618
"""Multiples of it, modulo 1, lie evenly: those who begin together come in turn from their second look on."""


class RateLimiter:
    """Reads per second that the loops of one process share.

    What comes back unread is not lost but read later: everything that is looked at shows levels, not edges.
    """

    def __init__(self, per_second: float) -> None:
        """Nothing has been spent yet.

        Args:
            per_second: reads that all members together make at most, those apart that can't wait.
        """
        self.per_second = per_second
        self.members = 0
        self._joined = 0
        self._left = per_second
        self._counted: datetime | None = None

    def join(self) -> Turn:
        """A place in the round."""
        self.members += 1
        self._joined += 1
        return Turn(self, phase=self._joined * GOLDEN_RATIO % 1)

    @property
    def round(self) -> timedelta:
        """How long it takes until all members have had their turn."""
        return timedelta(seconds=self.members / self.per_second)

    def spend(self, now: datetime, *, at_once: bool) -> bool:
        """Whether a read may be made now; one that can't wait may always be, at the cost of the others."""
        passed = timedelta(0) if self._counted is None else now - self._counted
        self._left = min(self._left + passed.total_seconds() * self.per_second, self.per_second)
        self._counted = now
        if self._left < 1 and not at_once:
            return False
        self._left = max(self._left - 1, -self.per_second)
        return True


class Turn:
    """One member's place in the round of a `RateLimiter`."""

    def __init__(self, budget: RateLimiter, phase: float) -> None:
        """Use `RateLimiter.join`.

        Args:
            budget: shared with the others.
            phase: in [0, 1), which part of a round passes between the first look and the second.
        """
        self._budget = budget
        self._phase = phase
        self._last: datetime | None = None

    def due(self, now: datetime, every: timedelta, *, at_once: bool = False) -> bool:
        """Whether to read now; if so, it counts as done.

        Args:
            now: the time.
            every: how often this member likes to read; less often if the round takes longer.
            at_once: it can't wait. The first read never can.
        """
        interval = max(every, self._budget.round)
        if self._last is None:
            self._last = now - (1 - self._phase) * (interval - every)
            return self._budget.spend(now, at_once=True)
        if not at_once and now - self._last < interval:
            return False
        if not self._budget.spend(now, at_once=at_once):
            return False
        self._last = now
        return True

    def leave(self) -> None:
        """Give the place up."""
        self._budget.members -= 1
