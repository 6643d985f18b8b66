"""Limits of the parameters of restart strategies, and the messages that name the limits."""

from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.policies.restart_backoff import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartRecord,
    backoff,
    notify,
)
from tests.lab.scenario import START
from tests.support.patterns import exactly

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)

NO_JITTER = 0.5


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
