"""Restart strategies: arithmetic, merging, memory. What Flink's own tests show is in the conformance vectors."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartRecord,
    RestartStrategy,
    backoff,
    can_restart,
    notify,
)
from airflow_adaptive.testing.scenario import START

SECOND = timedelta(seconds=1)
NO_JITTER = 0.5


def delays(strategy: RestartStrategy, failures: int, draw: float = NO_JITTER) -> list[timedelta]:
    """The delays of failures that follow each other just after the planned restart."""
    record, now, found = RestartRecord(), START, []
    for _ in range(failures):
        record = notify(strategy, record, now, draw)
        found.append(backoff(strategy, record, now))
        now += found[-1] + timedelta(milliseconds=1)
    return found


def test_delay_grows_as_in_flink():
    seconds = [1, 1.5, 2.25, 3.375, 5.062, 7.593, 11.39, 17.085, 25.628, 38.443, 57.665, 60, 60]
    assert delays(ExponentialDelay(), 13) == [timedelta(seconds=s) for s in seconds]


@pytest.mark.parametrize("draw", [0.0, NO_JITTER, 0.999])
def test_delay_stays_at_its_maximum_for_ever(draw: float):
    assert set(delays(ExponentialDelay(), 2000, draw)[100:]) == {timedelta(minutes=1)}


def test_huge_multiplier_does_not_overflow():
    assert delays(ExponentialDelay(backoff_multiplier=1e300), 5)[1:] == [timedelta(minutes=1)] * 4


@given(draw=st.floats(0, 1, exclude_max=True), attempt=st.integers(1, 30), jitter=st.floats(0, 1))
def test_delay_is_always_within_its_bounds(draw: float, attempt: int, jitter: float):
    strategy = ExponentialDelay(jitter_factor=jitter)
    for delay in delays(strategy, attempt, draw):
        assert strategy.initial_backoff <= delay <= strategy.max_backoff


def test_failure_before_the_planned_restart_belongs_to_the_same_attempt():
    strategy = ExponentialDelay(attempts_before_reset_backoff=1)
    record = notify(strategy, RestartRecord(), START, NO_JITTER)
    assert notify(strategy, record, START + SECOND, NO_JITTER) == record
    assert can_restart(strategy, record, START + SECOND)
    second = notify(strategy, record, START + 2 * SECOND, NO_JITTER)
    assert second.attempts == 2
    assert not can_restart(strategy, second, START + 2 * SECOND)


def test_counting_starts_anew_after_a_quiet_time():
    strategy = ExponentialDelay(reset_backoff_threshold=10 * SECOND)
    record = notify(strategy, RestartRecord(), START, NO_JITTER)
    record = notify(strategy, record, START + 2 * SECOND, NO_JITTER)
    planned = record.restart_at
    assert planned is not None
    assert notify(strategy, record, planned + 9.9 * SECOND, NO_JITTER).attempts == 3
    assert notify(strategy, record, planned + 10 * SECOND, NO_JITTER).attempts == 1


def test_delay_before_any_failure_is_nothing():
    assert backoff(ExponentialDelay(), RestartRecord(), START) == timedelta(0)
    assert backoff(NoRestart(), RestartRecord(), START) == timedelta(0)


def test_clock_that_goes_back_merges_failures():
    strategy = ExponentialDelay()
    record = notify(strategy, RestartRecord(), START, NO_JITTER)
    assert notify(strategy, record, START - timedelta(days=1), NO_JITTER) == record


def test_fixed_delay_never_forgets():
    strategy = FixedDelay(attempts=2, delay=SECOND)
    record = RestartRecord()
    for number in range(3):
        record = notify(strategy, record, START + timedelta(days=number), NO_JITTER)
        assert can_restart(strategy, record, START) is (number < 2)
        assert backoff(strategy, record, START) == SECOND


def test_no_restart_remembers_nothing():
    assert notify(NoRestart(), RestartRecord(), START, NO_JITTER) == RestartRecord()
    assert not can_restart(NoRestart(), RestartRecord(), START)


@given(gaps=st.lists(st.integers(0, 90), max_size=20), most=st.integers(1, 5))
def test_failure_rate_is_the_number_of_failures_in_the_interval(gaps: list[int], most: int):
    strategy = FailureRate(max_failures_per_interval=most)
    record, now = RestartRecord(), START
    times = []
    for gap in gaps:
        now += gap * SECOND
        times.append(now)
        record = notify(strategy, record, now, NO_JITTER)
        recent = [at for at in times if now - at <= strategy.failure_rate_interval]
        assert can_restart(strategy, record, now) is (len(recent) <= most)
        assert all(earlier <= later for earlier, later in pairwise(record.failures))
