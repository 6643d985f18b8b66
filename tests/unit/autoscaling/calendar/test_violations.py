"""Violations in the declaration of a calendar."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_adaptive.autoscaling.calendar import declaration
from airflow_adaptive.autoscaling.calendar.changes import upcoming_changes
from airflow_adaptive.autoscaling.calendar.declaration import period
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.calendar.violations import LookAhead, Window
from airflow_adaptive.autoscaling.policy import Bounds, RescalePolicyError
from tests.support.autoscaling.calendar_policies import advice, at, office

window: Callable[..., Window] = declaration.window
scheduled_policy: Callable[..., ScheduledPolicy] = declaration.scheduled_policy


def refused(**options: Any) -> tuple[str, ...]:
    with pytest.raises(RescalePolicyError) as raised:
        scheduled_policy(**({"zone": "UTC", "windows": [window("day", 2)]} | options))
    return raised.value.violations


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"zone": "Europe/Berln"}, "time zone 'Europe/Berln' is unknown: did you mean 'Europe/Berlin'?"),
        ({"windows": []}, "the policy has no window: declare at least one, or no policy"),
        ({"windows": [window("a", "x")]}, "window 'a': parallelism 'x' must be a number"),
        ({"windows": [window("a", (5, 2))]}, "window 'a': lower bound 5 of every vertex is above its upper bound 2"),
        ({"windows": [window("a", 0)]}, "window 'a': bound 0 of every vertex must be at least 1"),
        ({"windows": [window("a", {})]}, "window 'a': no vertex has bounds"),
        ({"windows": [window("a", 1, start="8:00", end="08:00")]}, "window 'a': the period is empty"),
        ({"windows": [window("a", 1, start="24:00")]}, "window 'a': the start is 24:00"),
        ({"windows": [window("a", 1, start="8 am")]}, "window 'a': '8 am' is not a time of day"),
        ({"windows": [window("a", 1, end="24:30")]}, "window 'a': '24:30' is not a time of day"),
        ({"windows": [window("a", 1, start=8)]}, "window 'a': 8 must be text"),
        ({"windows": [window("a", 1, weekdays="mon-fry")]}, "window 'a': weekday 'mon-fry' is unknown"),
        ({"windows": [window("a", 1, holidays="maybe")]}, "window 'a': holidays 'maybe' must be one of 'like_others'"),
        (
            {"windows": [window("a", 1, holidays="only")]},
            "the period begins on holidays only, and the policy has no holidays",
        ),
        ({"windows": [window("a", 1, dates=["2026-02-30"])]}, "window 'a': '2026-02-30' is not a date"),
        (
            {"windows": [window("a", 1, dates=["2026-03-02/2026-03-01"])]},
            "'2026-03-02/2026-03-01' ends before it begins",
        ),
        ({"windows": [window("a", 1, dates=["2020-01-01/2099-01-01"])]}, "cover more than ten years"),
        ({"windows": [window("a", 1, dates=["2026-06-06"], weekdays="mon")]}, "'a' never begins: none of its dates"),
        ({"windows": [window("a", 1, cron="0 0 31 2 *", duration="1 h")]}, "cron '0 0 31 2 *' fires on no day"),
        ({"windows": [window("a", 1, cron="0 0 * *", duration="1 h")]}, "window 'a': "),
        ({"windows": [window("a", 1, cron="0 0 * * *")]}, "window 'a': cron declares the begin only"),
        (
            {"windows": [window("a", 1, cron="0 0 * * *", duration="1 h", end="08:00")]},
            "remove start, end and weekdays",
        ),
        (
            {"windows": [window("a", 1, start="01:00", duration="1 h", end="08:00")]},
            "end and duration exclude each other",
        ),
        ({"windows": [window("a", 1, duration="soon")]}, "window 'a': duration 'soon' is not a duration"),
        ({"windows": [window("a", 1, duration=0)]}, "must be longer than zero"),
        ({"windows": [window("a", 1, priority=1.5)]}, "window 'a': priority 1.5 must be a whole number"),
        ({"windows": [window("", 1)]}, "the name '' must be a text that is not empty"),
        ({"default": "x"}, "the default: parallelism 'x' must be a number"),
        ({"holidays": "os:getcwd"}, "the holidays: '/' is not a date"),
        ({"look_ahead": LookAhead(margin=float("nan"))}, "look_ahead: margin nan must be a number from 0 to 10"),
        ({"look_ahead": {"at_most": "soon"}}, "look_ahead: at_most soon must be a duration"),
        ({"look_ahead": LookAhead(at_most=timedelta(days=2))}, "look_ahead: at_most 2 days"),
        ({"excluded": [period("x")]}, "the excluded periods cover all of the time"),
        (
            {"excluded": [period("day", start="01:00", end="02:00")]},
            "have the name 'day': use a different name for each",
        ),
    ],
)
def test_violation_is_reported_with_its_name_and_the_fix(options, reported):
    assert any(reported in violation for violation in refused(**options))


def test_all_violations_are_reported_at_once():
    windows = [window("a", 0, start="25:00"), {"name": "b", "color": 1}, window("c", 1, dates=["never"])]
    assert len(refused(zone="Mars", windows=windows, holidays="x:y", default=(3, 1))) == 7


@pytest.mark.parametrize(
    ("one", "other", "when"),
    [
        (
            {"weekdays": "mon-fri", "start": "06:00", "end": "12:00"},
            {"start": "11:00", "end": "13:00"},
            "each Monday at 11:00",
        ),
        (
            {"weekdays": "sun", "start": "22:00", "end": "06:00"},
            {"weekdays": "mon", "end": "05:00"},
            "each Monday at 00:00",
        ),
        (
            {"dates": ["2026-05-01"]},
            {"weekdays": "fri", "start": "08:00", "end": "09:00"},
            "first on 2026-05-01 at 08:00",
        ),
        (
            {"cron": "0 0 13 * *", "duration": "1 h"},
            {"cron": "30 0 * * 5#2", "duration": "1 h"},
            "first on 2028-10-13 at 00:30",
        ),
        (
            {"start": "20:00", "duration": "36 h", "weekdays": "fri"},
            {"weekdays": "sun", "end": "12:00"},
            "each Sunday at 00:00",
        ),
    ],
)
def test_windows_of_the_same_priority_that_overlap_at_any_time_are_refused(one, other, when):
    (violation,) = refused(windows=[window("a", 1, **one), window("b", 2, **other)])
    assert when in violation
    assert "'a'" in violation
    assert "'b'" in violation
    scheduled_policy(zone="UTC", windows=[window("a", 1, **one), window("b", 2, priority=1, **other)])


def test_windows_that_adjoin_do_not_overlap_in_any_zone():
    parts = [window("a", 1, end="02:30"), window("b", 2, start="02:30", end="02:45"), window("c", 3, start="02:45")]
    policy = scheduled_policy(zone="Australia/Lord_Howe", windows=parts)
    assert all(one.at < other.at for one, other in pairwise(upcoming_changes(policy, at("2026-04-03T00:00Z"), 12)))


def test_bounds_outside_of_the_jobs_maximum_are_refused_when_it_is_known():
    policy = office(windows=[window("a", {"read": 17, "sink": 1}, priority=1), *office().windows], default=(9, -1))
    with pytest.raises(RescalePolicyError) as raised:
        advice(policy, "2026-06-01T12:00Z")
    assert raised.value.violations == (
        "window 'a': the job has no vertex 'sink': it has 'read', 'count'",
        "window 'a': upper bound 17 of vertex 'read' is above its max_parallelism 16: decrease the bound",
        "the default: lower bound 9 of vertex 'read' is above its upper bound 4: swap them",
        "the default: lower bound 9 of vertex 'count' is above its upper bound 8: swap them",
    )


def test_bounds_are_made_of_what_users_write():
    assert Bounds.of(3) == Bounds.of((3, 3)) == Bounds.of({"*": [3, 3]}) == Bounds.of(Bounds.of(3))
    with pytest.raises(ValueError, match="whole number"):
        Bounds.of(True)
