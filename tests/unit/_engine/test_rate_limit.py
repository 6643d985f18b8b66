"""The reads of few members, of many members, and of members whose reads are urgent."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta

import pytest

from airflow_adaptive._engine.rate_limit import MOST_ROUNDS, RESERVED, RateLimiter
from tests.lab.fakes.manual_clock import SHORTEST, START, ManualClock

SECOND = timedelta(seconds=1)


class StepClock(ManualClock):
    """A clock that a test advances."""

    def advance(self, by: timedelta = SECOND) -> None:
        self._now += by


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


def reads(members: int, per_second: float, seconds: int, *, urgent: int = 0) -> Counter[int]:
    """Number of reads by member. All members request a read every second; the first `urgent` members cannot wait."""
    clock = StepClock()
    limiter = RateLimiter(per_second, clock)
    joined = [limiter.join() for _ in range(members)]
    counted: Counter[int] = Counter()
    for _ in range(seconds):
        for number, member in enumerate(joined):
            counted[number] += member.due(SECOND, urgent=number < urgent)
        clock.advance()
    return counted


def test_few_members_read_with_their_own_interval() -> None:
    assert set(reads(members=10, per_second=10, seconds=20).values()) == {20}


def test_many_members_read_in_turn_and_equally_often() -> None:
    counted = reads(members=100, per_second=10, seconds=101)
    assert set(counted.values()) <= {10, 11}
    assert sum(counted.values()) <= 100 + 10 * 101


def test_first_read_never_waits() -> None:
    assert sum(reads(members=100, per_second=10, seconds=1).values()) == 100


def test_urgent_read_is_allowed_at_the_cost_of_the_other_reads(clock: StepClock) -> None:
    limiter = RateLimiter(10, clock)
    urgent, other = limiter.join(), limiter.join()
    assert urgent.due(SECOND)
    assert other.due(SECOND)
    clock.advance()
    assert all(urgent.due(SECOND, urgent=True) for _ in range(20))
    assert not other.due(SECOND)
    clock.advance(2 * SECOND)
    assert other.due(SECOND)


@pytest.mark.parametrize("urgent", [101, 1000])
def test_many_urgent_members_do_not_starve_the_other_members(urgent: int) -> None:
    """Every second, more members read urgently than the limit allows. An idle member must still read in turn."""
    counted = reads(members=urgent + 50, per_second=100, seconds=300, urgent=urgent)
    round_s = math.ceil((urgent + 50) / (100 * RESERVED))
    others = [counted[number] for number in range(urgent, urgent + 50)]
    assert min(others) >= 300 // round_s - 1
    assert max(others) - min(others) <= 1 + 300 // round_s // 10
    assert min(counted[number] for number in range(urgent)) == 300


def test_members_that_always_request_first_do_not_starve_the_last_one(clock: StepClock) -> None:
    """Four loops wake up at the same moments, in the same order, and the bucket never has more than two tokens."""
    limiter = RateLimiter(2, clock)
    members, counted = [limiter.join() for _ in range(4)], Counter[int]()
    for _ in range(40):
        counted.update(number for number, member in enumerate(members) if member.due(2 * SECOND))
        clock.advance()
        clock.advance()
    assert min(counted[number] for number in range(4)) >= 40 // MOST_ROUNDS


def test_others_read_more_often_again_when_no_read_is_urgent(clock: StepClock) -> None:
    limiter = RateLimiter(10, clock)
    busy = [limiter.join() for _ in range(20)]
    assert limiter.round == 2 * SECOND
    for urgent in (True, True, False):
        for member in busy:
            member.due(SECOND, urgent=urgent)
        assert limiter.round == (8 * SECOND if urgent and clock.now() > START else 2 * SECOND)
        clock.advance()


def test_member_that_unregisters_during_an_urgent_read_takes_no_reads_from_the_others(clock: StepClock) -> None:
    """A job ends while its loop reads often, and the loops of other jobs continue."""
    limiter = RateLimiter(10, clock)
    ending, idle = [limiter.join() for _ in range(20)], limiter.join()
    for member in ending:
        for _ in range(2):  # The first read of a member does not count as urgent.
            member.due(SECOND, urgent=True)
            clock.advance()
        member.unregister()
    assert limiter.round == timedelta(seconds=0.1)
    idle.unregister()
    assert limiter.round == timedelta(0)


def test_reads_continue_after_a_long_pause_of_the_process(clock: StepClock) -> None:
    """The machine is suspended for a day, and all members request a read at once."""
    limiter = RateLimiter(10, clock)
    members = [limiter.join() for _ in range(5)]
    for pause in (SHORTEST, timedelta(days=1), SECOND):
        clock.advance(pause)
        assert all(member.due(SECOND) for member in members)
