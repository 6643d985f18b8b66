"""The expected result of the job, computed from the raw data without Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_adaptive.local.demo.flights import Flight

MAX_DIFFERENT_ROWS = 5
"""Rows of each kind of difference that the report lists."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CarrierHour:
    """A row of the result: the departures of a carrier in an hour.

    Attributes:
        carrier: two-letter code of the airline.
        hour: begin of the hour.
        departures: number of departed flights.
        mean_delay_minutes: mean delay of the departed flights. The value is the quotient of two integers that floating
            point represents exactly, so every correct computation returns the same bits, and rows can be compared for
            equality.
    """

    carrier: str
    hour: datetime
    departures: int
    mean_delay_minutes: float


def expected_rows(flights: Iterable[Flight]) -> list[CarrierHour]:
    """Compute the result in ascending order. An hour without a departure has no row."""
    delays: defaultdict[tuple[str, datetime], list[int]] = defaultdict(list)
    for flight in flights:
        if flight.delay_minutes is not None:
            delays[flight.carrier, flight.scheduled].append(flight.delay_minutes)
    return sorted(
        CarrierHour(carrier=carrier, hour=hour, departures=len(minutes), mean_delay_minutes=sum(minutes) / len(minutes))
        for (carrier, hour), minutes in delays.items()
    )


def differences(output: Iterable[CarrierHour], expected: Iterable[CarrierHour]) -> list[str]:
    """Describe the differences between the output and the expected result. A duplicate row is a difference."""
    actual, wanted = Counter(output), Counter(expected)
    missing, surplus = wanted - actual, actual - wanted
    return [*_difference("missing", missing), *_difference("wrong or duplicate", surplus)]


def _difference(kind: str, rows: Counter[CarrierHour]) -> list[str]:
    examples = [f"  {row}" for row in sorted(rows)[:MAX_DIFFERENT_ROWS]]
    return [f"{rows.total()} rows are {kind}, for example:", *examples] if rows else []
