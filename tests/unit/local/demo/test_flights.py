"""The data set, the result computed without Spark, and its comparison with the output."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_adaptive.local.demo.command import LAST_HOUR
from airflow_adaptive.local.demo.replay import CarrierHour, Flight, differences, expected_rows


@pytest.mark.long
def test_all_flights_of_the_year_are_there(all_flights: list[Flight]) -> None:
    assert sum(flight.departed for flight in all_flights) == 336_776 - 8_255
    assert all_flights[0].scheduled == datetime(2013, 1, 1, 10, tzinfo=UTC)


TEN = datetime(2013, 1, 1, 10, tzinfo=UTC)
ELEVEN = datetime(2013, 1, 1, 11, tzinfo=UTC)
ROW = CarrierHour(carrier="AA", hour=TEN, departures=2, mean_delay_minutes=1.5)


def flight(carrier: str, scheduled: datetime, delay: int | None) -> Flight:
    return Flight(carrier=carrier, scheduled=scheduled, delay_minutes=delay)


def test_departures_are_counted_per_carrier_and_hour_without_canceled_flights() -> None:
    given = [flight("AA", TEN, 4), flight("AA", TEN, -1), flight("AA", TEN, None), flight("UA", ELEVEN, None)]
    assert expected_rows(given) == [ROW]


@pytest.mark.long
def test_last_hour_of_the_scenario_is_that_of_the_result(all_flights: list[Flight]) -> None:
    assert max(row.hour for row in expected_rows(all_flights)) == LAST_HOUR


def test_equal_results_have_no_differences() -> None:
    assert differences([ROW], [ROW]) == []


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        pytest.param([], "1 rows are missing", id="missing"),
        pytest.param([ROW, ROW], "1 rows are wrong or duplicate", id="duplicate"),
        pytest.param([replace(ROW, mean_delay_minutes=1.5000001)], "1 rows are missing", id="wrong"),
    ],
)
def test_difference_is_reported(output: list[CarrierHour], reported: str) -> None:
    assert reported in differences(output, [ROW])[0]
