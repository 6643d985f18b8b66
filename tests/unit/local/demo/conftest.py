"""The flights of the year, which are read once."""

import pytest

from airflow_adaptive.local.demo.flights import Flight, flights


@pytest.fixture(scope="session")
def all_flights() -> list[Flight]:
    return list(flights())
