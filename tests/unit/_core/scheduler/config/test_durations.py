"""Durations in every notation."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler.config.durations import (
    LONGEST,
    format_duration,
    not_negative,
    or_never,
    or_unset,
    parse_duration,
    positive,
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (timedelta(minutes=3), timedelta(minutes=3)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        ("30", timedelta(seconds=30)),
        ("30 s", timedelta(seconds=30)),
        ("30sec", timedelta(seconds=30)),
        ("  5 MIN ", timedelta(minutes=5)),
        ("1 hour", timedelta(hours=1)),
        ("2 d", timedelta(days=2)),
        ("50 ms", timedelta(milliseconds=50)),
        ("7 µs", timedelta(microseconds=7)),
        ("1.5 min", timedelta(seconds=90)),
        ("-1 ms", timedelta(milliseconds=-1)),
    ],
)
def test_duration_is_read(written: object, expected: timedelta):
    assert parse_duration(written) == expected


@pytest.mark.parametrize("written", ["", "s", "5 parsecs", "5 5 s", "1e3 s", "nan", None, True, [1], "٣ s", "5 s\n6 s"])
def test_duration_is_refused_with_what_would_do(written: object):
    with pytest.raises(
        ValueError, match="is not a duration: use a timedelta, a number of seconds, or text such as '30 s'"
    ):
        parse_duration(written)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), "9" * 400])
def test_duration_that_is_no_number_is_refused(written: object):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)


@pytest.mark.parametrize("written", ["36501 d", timedelta.max, timedelta.min, 1e10])
def test_duration_beyond_the_calendar_is_refused(written: object):
    with pytest.raises(ValueError, match="is longer than 36500 d"):
        parse_duration(written)


@pytest.mark.parametrize("text", ["36500 d", "5 min", "12 h", "90 s", "50 ms", "7 us", "0 s", "-1 ms"])
def test_displayed_duration_is_read_back(text: str):
    assert format_duration(parse_duration(text)) == text
    assert parse_duration(LONGEST) == LONGEST


def test_ranges_are_checked():
    assert positive("1 ms") == timedelta(milliseconds=1)
    with pytest.raises(ValueError, match="'0 s' must be longer than zero"):
        positive("0 s")
    assert not_negative(0) == timedelta(0)
    with pytest.raises(ValueError, match="'-1 s' must not be negative"):
        not_negative("-1 s")
    assert or_unset(positive)(None) is None
    assert or_unset(positive)("1 s") == timedelta(seconds=1)


def test_never_is_none_or_negative():
    assert or_never(None) is None
    assert or_never("-1 ms") is None
    assert or_never("5 s") == timedelta(seconds=5)
    assert or_never(0) == timedelta(0)
