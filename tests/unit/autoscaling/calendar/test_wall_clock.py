"""Which instant a local time means."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_adaptive.autoscaling.calendar.wall_clock import Repeated, WallClock, zone_of


def meant(zone: str, local: str, repeated: Repeated = Repeated.FIRST) -> str:
    clock = WallClock(zone=zone, repeated=repeated)
    return clock.zoned(clock.instant(datetime.fromisoformat(local))).isoformat()


@pytest.mark.parametrize(
    ("zone", "local", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", "2026-03-29T02:00", "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", "2026-03-29T01:59", "2026-03-29T01:59:00+01:00"),
        ("Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-04T02:30:00+11:00"),
        ("Pacific/Apia", "2011-12-30T11:00", "2011-12-31T00:00:00+14:00"),
        ("Europe/Dublin", "2026-03-29T01:30", "2026-03-29T02:00:00+01:00"),
        ("Africa/Casablanca", "2026-03-22T02:30", "2026-03-22T03:00:00+01:00"),
        ("America/Sao_Paulo", "2018-11-04T00:00", "2018-11-04T01:00:00-02:00"),
        ("Asia/Beirut", "2026-03-29T00:30", "2026-03-29T01:00:00+03:00"),
        ("Antarctica/Troll", "2026-03-29T01:30", "2026-03-29T03:00:00+02:00"),
        ("Pacific/Kwajalein", "1993-08-21T12:00", "1993-08-22T00:00:00+12:00"),
    ],
)
def test_local_time_that_clocks_skip_means_the_end_of_the_gap(zone, local, expected):
    assert meant(zone, local) == meant(zone, local, Repeated.SECOND) == expected


@pytest.mark.parametrize(
    ("zone", "local", "first", "second"),
    [
        ("Europe/Berlin", "2026-10-25T02:30", "+02:00", "+01:00"),
        ("Australia/Lord_Howe", "2026-04-05T01:45", "+11:00", "+10:30"),
        ("Europe/Dublin", "2026-10-25T01:30", "+01:00", "+00:00"),
        ("Africa/Casablanca", "2026-02-15T02:30", "+01:00", "+00:00"),
        ("America/Sao_Paulo", "2018-02-17T23:30", "-02:00", "-03:00"),
        ("Asia/Beirut", "2026-10-24T23:30", "+03:00", "+02:00"),
    ],
)
def test_local_time_that_comes_twice_means_the_instant_that_is_requested(zone, local, first, second):
    assert meant(zone, local) == f"{local}:00{first}"
    assert meant(zone, local, Repeated.SECOND) == f"{local}:00{second}"


def test_clock_shows_no_time_in_a_gap_and_two_in_a_repeated_hour():
    clock = WallClock(zone="Europe/Berlin")
    assert clock.instants_of(datetime.fromisoformat("2026-03-29T02:30")) == ()
    assert clock.instants_of(datetime.fromisoformat("2026-06-01T02:30")) == (datetime(2026, 6, 1, 0, 30, tzinfo=UTC),)
    first, second = clock.instants_of(datetime.fromisoformat("2026-10-25T02:30"))
    assert second - first == timedelta(hours=1)


def test_what_is_no_name_of_a_zone_is_refused():
    with pytest.raises(ValueError, match="'Europe/Berln' is not known"):
        zone_of("Europe/Berln")
