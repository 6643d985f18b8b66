"""The schedule of a policy: the window that applies at each instant of an interval."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_adaptive.autoscaling.calendar.period import Period, WallClock
from airflow_adaptive.autoscaling.calendar.scheduled_policy import Schedule, ScheduleAt, merged_spans, schedule

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
CLOCK = WallClock(zone="UTC")
HOUR = timedelta(hours=1)

DAY = Period(name="day", start="08:00", end="20:00")
NOON = Period(name="noon", start="12:00", end="13:00")
BACKUP = Period(name="backup", start="10:00", end="14:00")


def at(hour: float) -> datetime:
    return BEGIN + hour * HOUR


def of(*windows: tuple[Period, int], excluded: tuple[Period, ...] = ()) -> Schedule:
    return schedule(windows, excluded, CLOCK, frozenset(), (BEGIN, END))


def begins(found: Schedule) -> list[tuple[datetime, int | None]]:
    return [(segment.begin, segment.window) for segment in found.segments]


def windows_ahead(found: ScheduleAt) -> list[int | None]:
    return [segment.window for segment in found.ahead]


def test_default_applies_outside_of_windows() -> None:
    assert begins(of((DAY, 0))) == [(at(0), None), (at(8), 0), (at(20), None)]


def test_window_with_the_highest_priority_applies_and_the_other_one_continues_afterwards() -> None:
    expected = [(at(0), None), (at(8), 0), (at(12), 1), (at(13), 0), (at(20), None)]
    assert begins(of((DAY, 0), (NOON, 1))) == expected


def test_first_window_applies_with_equal_priorities() -> None:
    assert begins(of((DAY, 0), (NOON, 0))) == begins(of((DAY, 0)))


def test_window_that_runs_at_the_begin_of_the_interval_applies_from_the_begin() -> None:
    overnight = Period(name="night", start="20:00", end="06:00")
    assert begins(of((overnight, 0)))[:3] == [(at(0), 0), (at(6), None), (at(20), 0)]


def test_segment_within_the_lead_time_is_ahead() -> None:
    found = of((DAY, 0))
    assert windows_ahead(found.at(at(7), lead=0.5 * HOUR)) == []
    assert windows_ahead(found.at(at(7), lead=HOUR)) == [0]


def test_excluded_period_keeps_the_window_before_it() -> None:
    found = of((DAY, 0), (NOON, 1), excluded=(BACKUP,))
    assert found.at(at(12.5), lead=HOUR) == ScheduleAt(window=0, ahead=(), excluded=True)
    assert found.at(at(14), lead=HOUR) == ScheduleAt(window=0, ahead=(), excluded=False)


def test_lead_time_ends_at_the_next_excluded_period() -> None:
    found = of((NOON, 0), excluded=(BACKUP,))
    assert windows_ahead(found.at(at(9.5), lead=5 * HOUR)) == []


def test_window_that_begins_with_the_excluded_period_is_ahead_only_with_a_lead_time() -> None:
    found = of((Period(name="late", start="10:00"), 0), excluded=(BACKUP,))
    assert windows_ahead(found.at(at(11), lead=HOUR)) == [0]
    assert windows_ahead(found.at(at(11), lead=timedelta(0))) == []


def test_change_points_are_begins_early_begins_and_ends_of_excluded_periods() -> None:
    found = of((NOON, 0), excluded=(Period(name="backup", start="02:00", end="03:00"),))
    assert found.change_points(at(0), at(12), lead=HOUR) == [at(2), at(3), at(11), at(12)]


def test_excluded_periods_that_adjoin_are_merged() -> None:
    early = Period(name="early", start="09:00", end="10:00")
    assert merged_spans([BACKUP, early], CLOCK, frozenset(), (BEGIN, END)) == [(at(9), at(14))]
