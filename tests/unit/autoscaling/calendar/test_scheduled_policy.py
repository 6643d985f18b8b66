"""The scheduled policy: what it advises, what it refuses, and what it tells beforehand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import pytest

from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar import declaration
from airflow_adaptive.autoscaling.calendar.changes import bounds_at, last_change, upcoming_changes
from airflow_adaptive.autoscaling.calendar.declaration import period
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledMemory, ScheduledPolicy
from airflow_adaptive.autoscaling.calendar.violations import LookAhead, Window
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from tests.support.autoscaling.calendar_policies import LIMITS, advice, at, office, read

window: Callable[..., Window] = declaration.window
scheduled_policy: Callable[..., ScheduledPolicy] = declaration.scheduled_policy


def test_larger_bounds_are_advised_before_the_window_by_the_time_of_a_rescale():
    policy = office()
    assert read(policy, "2026-06-01T07:57:59Z") == (1, 4)
    _, early = advice(policy, "2026-06-01T07:58:00Z")
    assert early.bounds == {name: ParallelismRange(4, 8) for name in LIMITS}
    assert early.reason == "the default, early for window 'day' from 2026-06-01 08:00+00:00 (UTC)"
    assert early.next_at == at("2026-06-01T08:00Z")


def test_a_change_that_gives_less_is_advised_when_the_window_ends():
    policy = office()
    assert advice(policy, "2026-06-01T08:00Z")[1].next_at == at("2026-06-01T20:00Z")
    assert read(policy, "2026-06-01T19:59:59Z") == (4, 8)
    assert read(policy, "2026-06-01T20:00Z") == (1, 4)


@pytest.mark.parametrize(
    ("costs", "lead"),
    [
        ({}, 60),
        ({Tier.QUERY: timedelta(seconds=20)}, 30),
        ({Tier.QUERY: timedelta(seconds=20), Tier.STATE: timedelta(seconds=40), Tier.DRIVER: timedelta(hours=1)}, 60),
        ({Tier.DRIVER: timedelta(seconds=40)}, 60),
        ({Tier.QUERY: timedelta(hours=3)}, 900),
        ({Tier.QUERY: timedelta(0)}, 1),
        ({Tier.QUERY: timedelta(seconds=-5)}, 60),
    ],
)
def test_lead_is_the_longest_measured_rescale_with_a_margin_and_a_limit(costs, lead):
    assert LookAhead(margin=0.5, unmeasured=timedelta(seconds=40)).lead(costs) == timedelta(seconds=lead)


def test_early_change_stays_though_rescales_turn_out_to_be_shorter():
    policy = office()
    memory, _ = advice(policy, "2026-06-01T07:58:30Z")
    assert memory == ScheduledMemory(lead=timedelta(minutes=2), until=at("2026-06-01T08:00Z"))
    quicker = {Tier.QUERY: timedelta(seconds=10)}
    assert read(policy, "2026-06-01T07:59:00Z", quicker) == (1, 4)
    memory, still = advice(policy, "2026-06-01T07:59:00Z", quicker, memory)
    assert still.bounds["read"] == ParallelismRange(4, 8)
    memory, _ = advice(policy, "2026-06-01T08:00:00Z", quicker, memory)
    assert memory == ScheduledMemory()


def test_window_names_vertices_and_others_keep_what_is_declared():
    policy = office(windows=[window("day", {"read": (3, -1)})], default=None)
    assert advice(policy, "2026-06-01T12:00Z")[1].bounds == {
        "read": ParallelismRange(3, 4),
        "count": ParallelismRange(1, 8),
    }


def test_holidays_and_dates_decide_on_which_days_a_window_begins():
    off = window("off", 1, holidays="only")
    sale = window("sale", 9, dates=[(date(2026, 11, 27), "2026-11-30")], priority=1)
    policy = office(windows=[*office().windows, off, sale], holidays=lambda: [date(2026, 6, 1)], look_ahead=None)
    noon = [read(policy, f"{day}T12:00Z")[0] for day in ("2026-06-01", "2026-06-02", "2026-11-27", "2026-11-30")]
    assert noon == [1, 4, 9, 9]


def test_cron_window_lasts_as_long_as_it_states():
    policy = office(windows=[window("first", 7, cron="30 6 1 * *", duration="90 min")], look_ahead=None)
    assert [read(policy, f"2026-06-01T{when}Z")[0] for when in ("06:29", "06:30", "07:59", "08:00")] == [1, 7, 7, 1]
    assert advice(policy, "2026-06-01T08:00Z")[1].next_at == at("2026-07-01T06:30Z")


def test_hourly_cron_begins_twice_in_a_repeated_hour_and_not_in_a_gap():
    policy = office(
        zone="Europe/Berlin", windows=[window("tick", 7, cron="15 * * * *", duration="5 min")], look_ahead=None
    )
    begins = [each.local for each in upcoming_changes(policy, at("2026-10-24T23:50Z"), 8) if each.window == "tick"]
    assert begins[:3] == ["2026-10-25T02:15:00+02:00", "2026-10-25T02:15:00+01:00", "2026-10-25T03:15:00+01:00"]
    begins = [each.local for each in upcoming_changes(policy, at("2026-03-29T00:00Z"), 4) if each.window == "tick"]
    assert begins == ["2026-03-29T01:15:00+01:00", "2026-03-29T03:15:00+02:00"]


def test_leap_day_is_foreseen_years_before():
    policy = office(windows=[window("leap", 7, cron="0 0 29 2 *", duration="1 d")], look_ahead=None)
    assert [each.local for each in upcoming_changes(policy, at("2026-03-01T00:00Z"), 2)] == [
        "2028-02-29T00:00:00+00:00",
        "2028-03-01T00:00:00+00:00",
    ]


def test_date_far_away_is_foreseen():
    policy = office(windows=[window("jubilee", 7, dates=["2050-01-01"])], look_ahead=None)
    assert advice(policy, "2026-06-01T00:00Z")[1].next_at == at("2050-01-01T00:00Z")
    assert advice(policy, "2050-01-02T00:00Z")[1].next_at is None


def test_nothing_changes_in_an_excluded_period_and_what_was_due_changes_at_its_end():
    policy = office(
        excluded=[period("freeze", start="07:00", end="09:00"), period("release", start="19:00", end="23:00")]
    )
    assert [read(policy, f"2026-06-01T{when}Z") for when in ("06:59", "08:30", "09:00")] == [(1, 4), (1, 4), (4, 8)]
    assert [read(policy, f"2026-06-01T{when}Z") for when in ("19:30", "22:59", "23:00")] == [(4, 8), (4, 8), (1, 4)]
    assert "excluded period" in advice(policy, "2026-06-01T08:30Z")[1].reason


def test_excluded_period_of_months_holds_what_was_when_it_began():
    policy = office(excluded=[period("leave", dates=["2026-06-01/2027-03-31"])])
    assert read(policy, "2027-02-02T12:00Z") == (1, 4)
    assert advice(policy, "2027-02-02T12:00Z")[1].next_at == at("2027-04-01T00:00Z")


@pytest.mark.long
def test_excluded_periods_of_many_years_are_held_throughout():
    policy = office(excluded=[period("sleep", dates=["2026-06-01/2036-05-31", "2036-06-01/2045-12-31"])])
    assert advice(policy, "2045-02-02T12:00Z")[1].bounds["read"] == ParallelismRange(1, 4)
    assert advice(policy, "2027-02-02T12:00Z")[1].next_at == at("2046-01-01T00:00Z")


def test_bounds_of_an_instant_are_known_without_the_jobs_limits():
    assert bounds_at(office(), at("2026-06-01T12:00Z"), ["read"]) == {"read": ParallelismRange(4, 8)}
    with pytest.raises(RescalePolicyError, match="no vertex 'sink'"):
        bounds_at(office(windows=[window("day", {"sink": 1})]), at("2026-06-01T12:00Z"), ["read"])


def test_vertex_whose_declared_bounds_are_not_known_is_not_early():
    closing = window("closing", {"read": 9}, start="18:00", end="20:00", priority=1)
    policy = office(windows=[*office().windows, closing])
    assert bounds_at(policy, at("2026-06-01T17:59:30Z"), ["read", "count"]) == {
        "read": ParallelismRange(9, 9),
        "count": ParallelismRange(4, 8),
    }
    assert bounds_at(policy, at("2026-06-01T18:00Z"), ["read", "count"])["count"] == ParallelismRange(1, -1)


def test_instant_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="has no time zone"):
        upcoming_changes(office(), datetime(2026, 6, 1), 1)  # noqa: DTZ001


def test_preview_reports_when_what_changes_to_what_and_why():
    first, second = upcoming_changes(office(), at("2026-06-01T00:00Z"), 2, limits=LIMITS, lead=timedelta(minutes=2))
    assert first.at == at("2026-06-01T07:58Z")
    assert first.local == "2026-06-01T07:58:00+00:00"
    assert first.ready_at == at("2026-06-01T08:00Z")
    assert (first.before["read"], first.after["read"]) == (ParallelismRange(1, 4), ParallelismRange(4, 8))
    assert (first.window, second.window) == ("day", None)
    assert second.ready_at is None


def test_preview_without_limits_reports_what_is_declared_as_minus_one():
    changes = upcoming_changes(
        office(windows=[window("day", {"read": 3}, start="08:00")], default=None), at("2026-06-01T00:00Z"), 1
    )
    assert changes[0].before == {"read": ParallelismRange(1, -1), "*": ParallelismRange(1, -1)}
    assert upcoming_changes(office(), at("2026-06-01T00:00Z"), 0) == []
    assert upcoming_changes(office(windows=[window("all", 3)]), at("2026-06-01T00:00Z"), 5) == []


def test_preview_shows_the_effect_of_clock_changes_on_windows():
    windows = [
        window("a", 5, start="02:30", end="05:00"),
        window("b", 6, start="02:05", end="02:10", priority=1),
        window("c", 7, start="20:00", end="02:15", priority=2),
    ]
    policy = office(zone="Europe/Berlin", windows=windows, look_ahead=None)
    spring = [remark for each in upcoming_changes(policy, at("2026-03-28T12:00Z"), 3) for remark in each.remarks]
    assert spring == [
        "'c' ends at 2026-03-29T03:00:00+02:00: 2026-03-29 02:15 does not exist (Europe/Berlin)",
        "'a' begins at 2026-03-29T03:00:00+02:00: 2026-03-29 02:30 does not exist (Europe/Berlin)",
        "'b' does not take place on 2026-03-29: its local times do not exist (Europe/Berlin)",
    ]
    autumn = [remark for each in upcoming_changes(policy, at("2026-10-24T22:30Z"), 2) for remark in each.remarks]
    assert (
        "'a' begins at 2026-10-25T02:30:00+02:00: 2026-10-25 02:30 comes twice, the first counts (Europe/Berlin)"
        in autumn
    )


def test_last_change_is_when_the_current_bounds_became_active():
    policy = office()
    assert last_change(policy, at("2026-06-06T12:00Z"), timedelta(0)) == at("2026-06-05T20:00Z")
    assert last_change(policy, at("2026-06-01T20:00Z"), timedelta(0)) == at("2026-06-01T20:00Z")
    assert last_change(office(windows=[window("all", 3)]), at("2026-06-06T12:00Z"), timedelta(0)) is None
