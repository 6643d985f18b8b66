"""Periods of the calendar: their spans in an interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_adaptive.autoscaling.calendar.period import Period
from airflow_adaptive.autoscaling.calendar.wall_clock import WallClock

HOUR = timedelta(hours=1)


def test_period_longer_than_a_day_with_a_late_start_lasts_until_its_end() -> None:
    begin = datetime(2026, 1, 5, 23, tzinfo=UTC)  # a Monday
    late = Period(name="late", weekdays=("mon",), start="23:00", duration=26 * HOUR)
    last_hour = begin + 25.5 * HOUR
    assert late.spans(WallClock(zone="UTC"), (), last_hour, last_hour + HOUR) == [(begin, begin + 26 * HOUR)]
