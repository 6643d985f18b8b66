"""Jitter: a pure function of its key, uniform in [0, 1)."""

import statistics

from airflow_adaptive._core.scheduler.policies.jitter import jitter


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
