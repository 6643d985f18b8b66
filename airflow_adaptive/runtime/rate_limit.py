"""Rate limit of the reads that the loops of one process share.

A few loops read as often as their own interval allows. Many loops read in turn, so that all loops together stay below the limit.
"""

from __future__ import annotations

from datetime import datetime, timedelta

GOLDEN_RATIO = 0.618
"""Multiples of the golden ratio modulo 1 are spread evenly, so members that join together read at different times later."""


class RateLimiter:
    """Number of reads per second that the loops of one process share (a token bucket).

    A read that is refused is only delayed: every read returns levels and not edges.
    """

    def __init__(self, per_second: float) -> None:
        """All tokens are available.

        Args:
            per_second: limit for the reads of all members together, urgent reads excepted.
        """
        self.per_second = per_second
        self.members = 0
        self._joined = 0
        self._tokens = per_second
        self._refilled_at: datetime | None = None

    def join(self) -> RateLimiterMember:
        """Add a member."""
        self.members += 1
        self._joined += 1
        return RateLimiterMember(self, phase=self._joined * GOLDEN_RATIO % 1)

    @property
    def round(self) -> timedelta:
        """Time in which every member can read once."""
        return timedelta(seconds=self.members / self.per_second)

    def take(self, now: datetime, *, urgent: bool) -> bool:
        """Take a token; return whether the read is allowed. An urgent read is always allowed and delays later reads."""
        elapsed = timedelta(0) if self._refilled_at is None else now - self._refilled_at
        self._tokens = min(self._tokens + elapsed.total_seconds() * self.per_second, self.per_second)
        self._refilled_at = now
        if self._tokens < 1 and not urgent:
            return False
        self._tokens = max(self._tokens - 1, -self.per_second)
        return True


class RateLimiterMember:
    """One member of a `RateLimiter`, for example the loop of one job."""

    def __init__(self, limiter: RateLimiter, phase: float) -> None:
        """Use `RateLimiter.join`.

        Args:
            limiter: limiter that the members share.
            phase: part of a round, in [0, 1), that passes between the first read and the second read.
        """
        self._limiter = limiter
        self._phase = phase
        self._last: datetime | None = None

    def due(self, now: datetime, interval: timedelta, *, urgent: bool = False) -> bool:
        """Return whether the member may read now; if so, the read counts.

        Args:
            now: time.
            interval: interval between two reads of this member. The interval grows if a round takes longer.
            urgent: whether the read cannot wait. The first read of a member is always urgent.
        """
        longer = max(interval, self._limiter.round)
        if self._last is None:
            self._last = now - (1 - self._phase) * (longer - interval)
            return self._limiter.take(now, urgent=True)
        if not urgent and now - self._last < longer:
            return False
        if not self._limiter.take(now, urgent=urgent):
            return False
        self._last = now
        return True

    def unregister(self) -> None:
        """Remove the member from the limiter."""
        self._limiter.members -= 1
