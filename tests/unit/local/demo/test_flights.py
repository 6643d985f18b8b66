"""The data set."""

from __future__ import annotations

from airflow_adaptive.local.demo.flights import flights


def test_all_flights_of_the_year_are_there() -> None:
    assert sum(flight.departed for flight in flights()) == 336_776 - 8_255
