"""Periods, cron expressions as days and times of day, and the instant that a local time means."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from croniter import croniter
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_adaptive.autoscaling.calendar.period import Period, Repeated, WallClock, parse_cron, zone_of
from tests.support.examples import examples

HOUR = timedelta(hours=1)


def test_period_longer_than_a_day_with_a_late_start_lasts_until_its_end() -> None:
    begin = datetime(2026, 1, 5, 23, tzinfo=UTC)  # a Monday
    late = Period(name="late", weekdays=("mon",), start="23:00", duration=26 * HOUR)
    last_hour = begin + 25.5 * HOUR
    assert late.spans(WallClock(zone="UTC"), (), last_hour, last_hour + HOUR) == [(begin, begin + 26 * HOUR)]


NUMBERED = {"5#3", "l5"}
FIELDS = st.tuples(
    st.sampled_from(["0", "30", "*/20", "5,10", "15-17"]),
    st.sampled_from(["8", "*", "*/6", "22-2", "0,12"]),
    st.sampled_from(["*", "1", "29", "31", "l", "*/10", "1-7"]),
    st.sampled_from(["*", "2", "jan-mar", "*/5"]),
    st.sampled_from(["*", "1-5", "sun", "7", *sorted(NUMBERED), "mon,wed"]),
).filter(lambda fields: fields[2] == "*" or fields[4] not in NUMBERED)


@settings(max_examples=examples(60), phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))
@given(FIELDS.map(" ".join), st.dates(date(2000, 1, 1), date(2050, 1, 1)))
def test_expression_fires_at_the_minutes_at_which_croniter_reports_it(expression, day):
    cron = parse_cron(expression)
    mine = {datetime.combine(day, time()) + timedelta(minutes=minute) for minute in cron.minutes if cron.fires_on(day)}
    candidates = {datetime.combine(day, time(hour, minute)) for hour in (0, 8, 22) for minute in (0, 5, 16, 30)}
    assert {moment for moment in candidates if croniter.match(expression, moment)} == mine & candidates


def test_weekly_expression_is_known_as_such():
    assert parse_cron("0 8 * * 1-5").is_weekly
    assert not parse_cron("0 8 1 * *").is_weekly
    assert not parse_cron("0 8 * 2 *").is_weekly
    assert not parse_cron("0 8 * * 5#3").is_weekly


def test_expression_that_fires_in_each_hour_is_known_as_such():
    assert parse_cron("*/15 * * * *").every_hour
    assert not parse_cron("0 */2 * * *").every_hour


@pytest.mark.parametrize(
    ("expression", "reported"),
    [
        ("nonsense", "must have five fields"),
        ("0 25 * * *", "cannot be parsed: .* out of range"),
        ("0 8 1 * 5#3", "use a separate window for each"),
        ("@sometimes", "cannot be parsed"),
        ("H 3 * * *", "uses random times"),
        ("R(0-10) 3 * * *", "uses random times"),
        ("0 0 * * * 30", "must have five fields"),
    ],
)
def test_what_is_no_expression_of_five_fields_is_refused(expression, reported):
    with pytest.raises(ValueError, match=reported):
        parse_cron(expression)


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
