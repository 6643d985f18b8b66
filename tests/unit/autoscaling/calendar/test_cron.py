"""Cron expressions as days and times of day."""

from datetime import date, datetime, time, timedelta

import pytest
from croniter import croniter
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_adaptive.autoscaling.calendar.cron import parse_cron
from tests.support.examples import examples

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
