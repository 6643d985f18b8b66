"""What the job must have written, computed from the raw data without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_adaptive.local.demo.flights import Flight


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Hour:
    """A row of the result: what a carrier did in an hour.

    Attributes:
        carrier: two-letter code of the airline.
        hour: its beginning.
        departures: flights that left.
        mean_delay_minutes: of them. A quotient of two integers that floating point holds exactly, so whoever divides
            them gets the same bits, and rows can be compared for equality.
    """

    carrier: str
    hour: datetime
    departures: int
    mean_delay_minutes: float


def hours(flights: Iterable[Flight]) -> list[Hour]:
    """The result, ordered; an hour without a departure has no row."""
    delays: defaultdict[tuple[str, datetime], list[int]] = defaultdict(list)
    for flight in flights:
        if flight.delay_minutes is not None:
            delays[flight.carrier, flight.scheduled].append(flight.delay_minutes)
    return sorted(
        Hour(carrier=carrier, hour=hour, departures=len(minutes), mean_delay_minutes=sum(minutes) / len(minutes))
        for (carrier, hour), minutes in delays.items()
    )
