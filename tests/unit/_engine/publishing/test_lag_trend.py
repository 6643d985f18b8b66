"""Whether a job falls behind: the least lag of several batches tells it, and the height of the sawtooth does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_adaptive._engine.publishing.lag_trend import lag_trend

STEP = 10


def trend(
    lag: Callable[[float], float | None], minutes: float = 59, trigger_s: float = 0, batch_s: float = 0
) -> str | None:
    """The trend after so many minutes with a lag, a function of the time in seconds."""
    return lag_trend([(at, lag(at)) for at in range(0, int(minutes * 60), STEP)], trigger_s, batch_s)


def sawtooth(period: float, least: float = 2, growth: float = 0) -> Callable[[float], float]:
    """The lag of batches that follow each other after a period; the least lag grows by `growth` per second."""
    return lambda at: max(least + growth * at, 0) + at % period


@pytest.mark.parametrize(
    ("lag", "trigger_s", "batch_s", "expected"),
    [
        # steady: the batches read what arrives, however long they take
        (lambda _: 0, 0, 1, "short"),
        (sawtooth(17), 10, 7, "short"),
        (sawtooth(600, least=90), 600, 80, "short"),
        (sawtooth(95, least=93), 0, 95, "short"),
        (sawtooth(60, least=7200), 60, 30, "steady"),
        # growing: 20 % and 4 % more arrive than the job processes; batches without a limit take longer and longer; a batch does not end
        (sawtooth(60, least=100, growth=0.2), 60, 60, "grows"),
        (sawtooth(60, least=100, growth=0.04), 60, 60, "grows"),
        (lambda at: 60 * 1.3 ** (at // 300), 0, 280, "grows"),
        (lambda at: max(at - 3540 + 300, 5), 60, 5, "grows"),
        (lambda at: max(at - 3540 + 2000, at % 300), 300, 20, "grows"),
        # catching up
        (sawtooth(60, least=7200, growth=-0.5), 60, 55, "shrinks"),
        # a peak that the job has left behind
        (lambda at: 1800 - abs(at - 1800) if at < 3500 else 30, 0, 5, "short"),
        # unknown: now, or for batches that are too long for an hour of points
        (lambda at: None if at > 3500 else 5, 0, 5, None),
        (sawtooth(1300, least=3000), 1300, 100, None),
    ],
)
def test_trend_is_that_of_the_least_lag_of_several_batches(
    lag: Callable[[float], float | None], trigger_s: float, batch_s: float, expected: str | None
) -> None:
    assert trend(lag, trigger_s=trigger_s, batch_s=batch_s) == expected


def test_trend_of_a_long_lag_is_unknown_until_five_minutes_have_passed() -> None:
    behind = sawtooth(20, least=600, growth=0.5)
    assert [trend(behind, minutes) for minutes in (0, 1, 4, 6)] == [None, None, None, "grows"]
    assert trend(sawtooth(20), minutes=1) == "short"


def test_job_whose_lag_was_unknown_meanwhile_is_compared_with_nothing() -> None:
    assert trend(lambda at: 600 if at > 3400 else None) is None
