"""Scheduled policies from text equal those from objects, and input that is not valid is reported."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar.declaration import period, scheduled_policy, window
from airflow_adaptive.autoscaling.calendar.period import Holidays, Repeated
from airflow_adaptive.autoscaling.calendar.violations import LookAhead
from airflow_adaptive.autoscaling.policy import EVERY_VERTEX, RescalePolicyError

ALL_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NEW_YEAR = date(2026, 1, 1)


def new_years() -> list[date]:
    """Holidays that a policy gets from a callable, or by the name of the callable."""
    return [NEW_YEAR]


def failing_holidays() -> list[date]:
    raise KeyError("calendar")


HERE = f"{__name__}:new_years"


def refused(**changes: Any) -> tuple[str, ...]:
    """The violations of a policy that differs from a valid policy."""
    valid: dict[str, Any] = {"zone": "UTC", "windows": [window("day", 2, start="08:00", end="20:00")]}
    with pytest.raises(RescalePolicyError) as raised:
        scheduled_policy(**(valid | changes))
    return raised.value.violations


@pytest.mark.parametrize(
    ("given", "weekdays"),
    [
        ("mon-fri", ALL_DAYS[:5]),
        ("Sat, Sunday", ("sat", "sun")),
        ("fri-mon", ("fri", "sat", "sun", "mon")),
        (["mon", "wed-thu"], ("mon", "wed", "thu")),
        ("sun-sun", ("sun",)),
        ("someday", ("someday",)),
        ("mon-someday", ("mon-someday",)),
    ],
)
def test_weekdays_are_names_or_ranges_and_invalid_names_stay(given: Any, weekdays: tuple[str, ...]) -> None:
    assert period("p", weekdays=given).weekdays == weekdays


@pytest.mark.parametrize(
    ("given", "dates"),
    [
        ("2026-12-24", ("2026-12-24",)),
        ([NEW_YEAR, datetime(2026, 1, 2, 3, 4)], ("2026-01-01", "2026-01-02")),  # noqa: DTZ001  a local time
        ([(NEW_YEAR, "2026-01-06")], ("2026-01-01/2026-01-06",)),
        (new_years, ("2026-01-01",)),
        (HERE, ("2026-01-01",)),
    ],
)
def test_dates_are_objects_text_ranges_or_a_callable(given: Any, dates: tuple[str, ...]) -> None:
    assert period("p", dates=given).dates == dates


def test_times_and_durations_are_objects_or_text() -> None:
    by_text = period("p", start="08:00", duration="8 h", holidays="never")
    assert by_text == period("p", start=time(8), duration=timedelta(hours=8), holidays=Holidays.NEVER)
    assert period("p", end=time(20, 30, 15)).end == "20:30:15"


def test_window_has_bounds_for_every_vertex_or_by_vertex() -> None:
    assert window("w", (1, 4)).bounds.vertices == {EVERY_VERTEX: ParallelismRange(1, 4)}
    assert window("w", {"sink": 2}).bounds.vertices == {"sink": ParallelismRange(2, 2)}


def test_policy_from_mappings_equals_the_policy_from_objects() -> None:
    by_mappings = scheduled_policy(
        zone="UTC",
        windows=[{"name": "day", "parallelism": 2, "start": "08:00", "end": "20:00"}],
        excluded=[{"name": "backup", "start": "02:00", "duration": "1 h"}],
        holidays=HERE,
        look_ahead={"margin": 1.0, "at_most": "5 min"},
        repeated="second",
    )
    assert by_mappings == scheduled_policy(
        zone="UTC",
        windows=[window("day", 2, start="08:00", end="20:00")],
        excluded=[period("backup", start="02:00", duration=timedelta(hours=1))],
        holidays=[NEW_YEAR],
        look_ahead=LookAhead(margin=1.0, at_most=timedelta(minutes=5)),
        repeated=Repeated.SECOND,
    )


@pytest.mark.parametrize(
    ("changes", "violation"),
    [
        ({"windows": [7]}, "window 7 must be the result of window() or a mapping of its arguments"),
        (
            {"windows": [{"name": "day", "parallelism": 1, "begin": "08:00"}]},
            "window 'day': period() got an unexpected keyword argument 'begin'",
        ),
        ({"excluded": [{}]}, "period None: missing 1 required positional argument: 'name'"),
        ({"holidays": 7}, "the holidays: dates 7 must be a list of dates: 'int' object is not iterable"),
        (
            {"holidays": "no_module:days"},
            "the holidays: 'no_module:days' cannot be imported: No module named 'no_module'",
        ),
        (
            {"holidays": f"{__name__}:HERE"},
            f"the holidays: '{__name__}:HERE' is not a callable: name a callable that returns dates",
        ),
        ({"holidays": failing_holidays}, "the holidays: failing_holidays returned no dates: KeyError: 'calendar'"),
        ({"look_ahead": {"most": "5 min"}}, "look_ahead {'most': '5 min'} must be a LookAhead, or None"),
        ({"windows": None}, "windows None must be a list"),
        ({"windows": 1.5}, "windows 1.5 must be a list"),
        ({"windows": "day"}, "windows 'day' must be a list"),
        ({"excluded": True}, "excluded True must be a list"),
        (
            {"windows": [{"name": ["day"], "parallelism": 1, "start": "08:00", "end": "09:00"}]},
            "window ['day']: the name ['day'] must be a text that is not empty",
        ),
        ({"repeated": "third"}, "repeated 'third' must be one of 'first', 'second'"),
    ],
)
def test_input_that_cannot_be_parsed_is_reported(changes: dict[str, Any], violation: str) -> None:
    assert violation in refused(**changes)


def test_invalid_part_is_reported_with_the_violations_of_the_rest() -> None:
    invalid_window, invalid_zone = refused(zone="Europe/Nowhere", windows=[{"name": "day"}])
    assert invalid_window == "window 'day': missing 1 required positional argument: 'parallelism'"
    assert invalid_zone.startswith("time zone 'Europe/Nowhere' is unknown")
