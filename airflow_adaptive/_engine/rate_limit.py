"""Rate limit of the reads that the loops of one process share, and the cycles in which a loop reads the files of its job.

A few loops read as often as their own interval allows. Many loops read in turn, so that all loops together stay below the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta

from airflow_adaptive._core.ports import Clock
from airflow_adaptive._core.scheduler.events import BatchCommitted, Event
from airflow_adaptive._core.scheduler.state import Executing, SchedulerState, WaitingForResources

GOLDEN_RATIO = 0.618
"""Multiples of the golden ratio modulo 1 are spread evenly, so members that join together read at different times later."""

RESERVED = 0.25
"""Part of the limit that urgent reads leave to the other reads."""

MOST_ROUNDS = 2
"""Rounds after which a read of a member is allowed in any case: members that ask in a fixed order must not take the tokens of the last one."""


class RateLimiter:
    """Number of reads per second that the loops of one process share (a token bucket), urgent reads excepted.

    A read that is refused is only delayed: every read returns levels and not edges. The limiter measures the time itself, because
    the clocks of the loops may differ.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        self.per_second = per_second
        self.clock = clock
        self.members = 0
        self.urgent_per_second = 0.0
        """Reads per second of the members whose reads are urgent."""
        self._joined = 0
        self._tokens = self._urgent_tokens = per_second
        self._early_tokens = RESERVED * per_second
        self._refilled_s = clock.elapsed

    def join(self) -> RateLimiterMember:
        """Add a member."""
        self.members += 1
        self._joined += 1
        return RateLimiterMember(self, phase=self._joined * GOLDEN_RATIO % 1)

    @property
    def round(self) -> timedelta:
        """Time in which every member can read once, beside the urgent reads."""
        left = max(self.per_second - self.urgent_per_second, RESERVED * self.per_second)
        return timedelta(seconds=self.members / left)

    def take(self, *, urgent: bool) -> bool:
        """Take a token; return whether the read is allowed.

        An urgent read is always allowed. Urgent reads delay later reads, but take at most a part of the tokens.
        """
        self._refill()
        if not urgent:
            is_allowed = self._tokens >= 1
            self._tokens -= is_allowed
            return is_allowed
        if self._urgent_tokens >= 1:
            self._urgent_tokens -= 1
            self._tokens -= 1
        return True

    def take_early(self) -> bool:
        """Take a token for a cycle before its turn; return whether there is one. There are few, so that many jobs with a change cost little more."""
        self._refill()
        is_allowed = self._early_tokens >= 1
        self._early_tokens -= is_allowed
        return is_allowed

    def _refill(self) -> None:
        tokens = (self.clock.elapsed - self._refilled_s) * self.per_second
        self._refilled_s = self.clock.elapsed
        self._tokens = min(self._tokens + tokens, self.per_second)
        self._urgent_tokens = min(self._urgent_tokens + tokens * (1 - RESERVED), self.per_second)
        self._early_tokens = min(self._early_tokens + tokens * RESERVED, RESERVED * self.per_second)


class RateLimiterMember:
    """One member of a `RateLimiter`. A part of a round, its phase, passes between its first read and its second read."""

    def __init__(self, limiter: RateLimiter, phase: float) -> None:
        self._limiter = limiter
        self._phase = phase
        self._read_s: float | None = None
        self._urgent_per_second = 0.0

    def due(self, interval: timedelta, *, urgent: bool = False) -> bool:
        """Return whether the member may read now; if so, the read counts.

        Args:
            interval: interval between two reads of this member. The interval grows if a round takes longer.
            urgent: whether the read cannot wait. The first read of a member is always urgent.
        """
        now, interval_s = self._limiter.clock.elapsed, interval.total_seconds()
        longer_s = max(interval, self._limiter.round).total_seconds()
        if self._read_s is None:
            self._read_s = now - (1 - self._phase) * (longer_s - interval_s)
            return self._limiter.take(urgent=True)
        self._set_urgent(1 / interval_s if urgent else 0.0)
        waited_s = now - self._read_s
        if not urgent and waited_s < longer_s:
            return False
        if not self._limiter.take(urgent=urgent or waited_s >= MOST_ROUNDS * longer_s):
            return False
        self._read_s = now
        return True

    def unregister(self) -> None:
        """Remove the member from the limiter."""
        self._set_urgent(0.0)
        self._limiter.members -= 1

    def _set_urgent(self, per_second: float) -> None:
        self._limiter.urgent_per_second += per_second - self._urgent_per_second
        self._urgent_per_second = per_second


FILE_POLLS_PER_SECOND = 100.0
"""Polls per second of the files of all idle jobs of a process. A poll is two small reads, about a millisecond of CPU."""


EARLY_INTERVAL = timedelta(milliseconds=200)
EARLY_TIME = timedelta(seconds=30)
"""Interval between two cycles of a job after an event, and how long it applies: its next event, such as a commit or the end of a driver, follows soon."""


class FilePolling:
    """Decides in each cycle whether the loop reads the journal and the driver status, and whether the next cycle begins early.

    A job that changes its plan, or that ends, cannot wait. The loops of jobs that run as planned share a rate limiter. The
    shared poll of the cluster still reports in each cycle whether the driver and its executors exist.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        self.is_due = True
        """Whether the loop reads the files in this cycle."""
        self.is_early = False
        """Whether the next cycle begins after `EARLY_INTERVAL`."""
        self._limiter = limiter
        self._member = limiter.join()
        self._is_idle = False
        self._state: tuple[object, ...] = ()
        self._event_s = -math.inf

    @property
    def is_crowded(self) -> bool:
        """Whether so many loops share the process that they read in turn."""
        return self._limiter.round > timedelta(seconds=1)

    def begin_cycle(self, interval: timedelta) -> None:
        """Decide for the cycle that begins now; `interval` is the poll interval of the job."""
        self.is_due = self._member.due(interval, urgent=not self._is_idle)

    def end_cycle(self, state: SchedulerState, events: Iterable[Event]) -> None:
        """Record the state of the job after a cycle, and the events of the cycle."""
        is_uneventful = all(isinstance(event, BatchCommitted) for event in events)
        self._is_idle = _is_idle(state) and is_uneventful
        entered = state.version, getattr(getattr(state.current, "manager", None), "phase", None)
        if not is_uneventful or entered != self._state:
            self._state, self._event_s = entered, self._limiter.clock.elapsed
        is_recent = self._limiter.clock.elapsed - self._event_s < EARLY_TIME.total_seconds()
        expects = not self._is_idle or isinstance(state.current, WaitingForResources)
        self.is_early = is_recent and expects and self._limiter.take_early()

    def close(self) -> None:
        """Leave the rate limiter."""
        self._member.unregister()


def _is_idle(state: SchedulerState) -> bool:
    """Return whether the scheduler expects nothing of the driver."""
    match state.current:
        case Executing(manager=manager):
            return manager.first_change is None
        case WaitingForResources():
            return state.driver is None
        case _:
            return False
