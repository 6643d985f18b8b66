"""Sets the bounds of the job of `flight_departures` by the calendar of New York's airports, without a change of the job's DAG.

Each run sets the bounds of a window, at the second of the change.
"""

from __future__ import annotations

from collections.abc import Iterator

import pendulum

from airflow_adaptive.autoscaling import period, scheduled_policy, window
from airflow_adaptive.operators import rescale_policy_dag

ZONE = "America/New_York"
YEARS = range(2026, 2031)


def holidays() -> Iterator[pendulum.Date]:
    """Holidays with few business travelers."""
    for year in YEARS:
        yield pendulum.date(year, 1, 1)
        yield pendulum.date(year, 5, 1).last_of("month", pendulum.MONDAY)
        yield pendulum.date(year, 7, 4)
        yield pendulum.date(year, 9, 1).first_of("month", pendulum.MONDAY)
        yield thanksgiving(year)
        yield pendulum.date(year, 12, 25)


def thanksgiving(year: int) -> pendulum.Date:
    """The fourth Thursday of November."""
    return pendulum.date(year, 11, 1).nth_of("month", 4, pendulum.THURSDAY)


policy = scheduled_policy(
    zone=ZONE,
    windows=[
        window("working day", (2, 4), weekdays="mon-fri", start="06:00", end="21:30", holidays="never"),
        window("weekend", (1, 3), weekdays="sat, sun", start="08:00", end="20:00"),
        # Traffic peaks on the day before Thanksgiving and on the following Sunday.
        window(
            "Thanksgiving",
            4,
            start="05:00",
            end="23:30",
            dates=[
                day for year in YEARS for day in (thanksgiving(year).subtract(days=1), thanksgiving(year).add(days=3))
            ],
            priority=1,
        ),
    ],
    default=(1, 2),
    excluded=[period("year-end freeze", dates=[(f"{year}-12-23", f"{year + 1}-01-02") for year in YEARS])],
    holidays=holidays,
)

rescale_policy_dag(
    "flight_departures_calendar",
    job="flight_departures",
    policy=policy,
    lead="5 min",
    description=__doc__,
    start_date=pendulum.datetime(2026, 1, 1, tz=ZONE),
    tags=["airflow-adaptive", "example"],
)
