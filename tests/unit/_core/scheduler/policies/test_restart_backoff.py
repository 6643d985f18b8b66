"""Restart strategies: arithmetic, merging, memory, limits and jitter. What Flink's own tests show is in the conformance vectors."""

import statistics
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_adaptive._core.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartRecord,
    RestartStrategy,
    backoff,
    can_restart,
    jitter,
    notify,
)
from tests.lab.scenario import START
from tests.support.patterns import exactly

SECOND = timedelta(seconds=1)
NO_JITTER = 0.5


def delays(strategy: RestartStrategy, failures: int, jitter: float = NO_JITTER) -> list[timedelta]:
    """The delays of failures that follow each other just after the planned restart."""
    record, now, found = RestartRecord(), START, []
    for _ in range(failures):
        record = notify(strategy, record, now, jitter)
        found.append(backoff(strategy, record, now))
        now += found[-1] + timedelta(milliseconds=1)
    return found


def test_delay_grows_as_in_flink():
    seconds = [1, 1.5, 2.25, 3.375, 5.062, 7.593, 11.39, 17.085, 25.628, 38.443, 57.665, 60, 60]
    assert delays(ExponentialDelay(), 13) == [timedelta(seconds=s) for s in seconds]


@pytest.mark.parametrize("jitter", [0.0, NO_JITTER, 0.999])
def test_delay_stays_at_its_maximum_for_ever(jitter: float):
    assert set(delays(ExponentialDelay(), 2000, jitter)[100:]) == {timedelta(minutes=1)}


def test_huge_multiplier_does_not_overflow():
    assert delays(ExponentialDelay(backoff_multiplier=1e300), 5)[1:] == [timedelta(minutes=1)] * 4


@given(jitter=st.floats(0, 1, exclude_max=True), attempt=st.integers(1, 30), factor=st.floats(0, 1))
def test_delay_is_always_within_its_bounds(jitter: float, attempt: int, factor: float):
    strategy = ExponentialDelay(jitter_factor=factor)
    for delay in delays(strategy, attempt, jitter):
        assert strategy.initial_backoff <= delay <= strategy.max_backoff


def test_failure_before_the_planned_restart_belongs_to_the_same_attempt():
    strategy = ExponentialDelay(attempts_before_reset_backoff=1)
    record = notify(strategy, RestartRecord(), START, NO_JITTER)
    assert notify(strategy, record, START + SECOND, NO_JITTER) == record
    assert can_restart(strategy, record, START + SECOND)
    second = notify(strategy, record, START + 2 * SECOND, NO_JITTER)
    assert second.attempts == 2
    assert not can_restart(strategy, second, START + 2 * SECOND)


def test_counting_starts_again_after_a_quiet_time():
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


# ---- as Flink's classes do it ---------------------------------------------------------------------------------------

MS = timedelta(milliseconds=1)


NOTHING = timedelta(0)


Strategy = type[FixedDelay | FailureRate | ExponentialDelay]


# ---- restart strategies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "name", "least", "less", "words"),
    [
        (FixedDelay, "attempts", 0, -1, "Maximum number of restart attempts must be at least 0."),
        (FixedDelay, "delay", NOTHING, -MS, "Backoff time between restart attempts must be at least 0 ms."),
        (
            *(FailureRate, "max_failures_per_interval", 1, 0),
            "Maximum number of restart attempts per time unit must be greater than 0.",
        ),
        (FailureRate, "failure_rate_interval", MS, NOTHING, "Failures interval must be greater than 0 ms."),
        (FailureRate, "delay", NOTHING, -MS, "Backoff time must be at least 0 ms."),
        (ExponentialDelay, "initial_backoff", MS, NOTHING, "Initial backoff must be at least 1."),
        (ExponentialDelay, "backoff_multiplier", 1.001, 1, "Backoff multiplier must be greater than 1."),
        (
            *(ExponentialDelay, "reset_backoff_threshold", MS, NOTHING),
            "Threshold duration for exponential backoff reset must be at least 1.",
        ),
        (ExponentialDelay, "jitter_factor", 0, -0.01, "Jitter factor must be >= 0 and <= 1."),
        (ExponentialDelay, "jitter_factor", 1, 1.01, "Jitter factor must be >= 0 and <= 1."),
        (
            *(ExponentialDelay, "attempts_before_reset_backoff", 1, 0),
            "The attemptsBeforeResetBackoff must be at least 1.",
        ),
    ],
)
def test_parameter_of_a_restart_strategy_has_a_limit(strategy: Strategy, name: str, least: Any, less: Any, words: str):
    assert getattr(strategy(**{name: least}), name) == least
    with pytest.raises(ValueError, match=exactly(words)):
        strategy(**{name: less})


def test_largest_backoff_is_at_least_a_millisecond_and_no_less_than_the_first():
    assert ExponentialDelay(initial_backoff=MS, max_backoff=MS).max_backoff == MS
    with pytest.raises(ValueError, match=exactly("Maximum backoff must be at least 1.")):
        ExponentialDelay(initial_backoff=MS, max_backoff=NOTHING)
    with pytest.raises(ValueError, match=exactly("Initial backoff cannot be higher than maximum backoff.")):
        ExponentialDelay(initial_backoff=2 * MS, max_backoff=MS)


@pytest.mark.parametrize(("attempts", "expected"), [(1, MS), (5, 2 * MS)])
def test_backoff_is_whole_milliseconds_as_in_flink(attempts: int, expected: timedelta):
    strategy = ExponentialDelay(initial_backoff=1.5 * MS, max_backoff=2.5 * MS, jitter_factor=0)
    record, now = RestartRecord(), START
    for _ in range(attempts):
        now += SECOND
        record = notify(strategy, record, now, NO_JITTER)
    assert backoff(strategy, record, now) == expected


def test_jitter_depends_only_on_its_key():
    assert jitter("job", 1, 2) == jitter("job", 1, 2)
    assert jitter("job", 1, 2) == 0.8752598443445958
    assert len({jitter("job", 1, 2), jitter("job", 2, 1), jitter("job", 12), jitter("other", 1, 2)}) == 4


def test_jitter_is_uniform():
    drawn = [jitter("job", epoch, attempt) for epoch in range(100) for attempt in range(100)]
    assert all(0 <= number < 1 for number in drawn)
    deciles = [sum(int(number * 10) == decile for number in drawn) for decile in range(10)]
    assert all(900 < count < 1100 for count in deciles)
    assert abs(statistics.mean(drawn) - 0.5) < 0.01
