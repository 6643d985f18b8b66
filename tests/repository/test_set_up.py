"""The set-up of all tests lets them run on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_examples_of_hypothesis_have_no_time_limit():
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
