"""The preview of the changes of a calendar."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.calendar import declaration
from airflow_adaptive.autoscaling.calendar.changes import last_change, upcoming_changes
from airflow_adaptive.autoscaling.calendar.scheduled_policy import Window
from tests.support.autoscaling.calendar_policies import LIMITS, at, office

window: Callable[..., Window] = declaration.window


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
