"""The generator, a process of its own: it replays the flights as a growing directory of files, in event-time order.

Each line on the standard input of the process contains a date and a speed: the process publishes the days before the date at
this speed. The scenario therefore controls the position in the data on machines of any speed. The process ends when
its standard input ends.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

from airflow_adaptive.local.demo.flights import Flight, flights

END = date(2014, 1, 3)
"""All flights of the year, and the end marker, are scheduled before this day."""

END_MARKER = Flight(carrier="--", scheduled=datetime(2014, 1, 2, 12, tzinfo=UTC), delay_minutes=None)
"""A flight that moves the watermark past the last hour of the year. The flight is canceled and alone in an hour that stays open,
so the result does not contain the flight."""

REPETITION_INTERVAL = timedelta(weeks=53)
"""Distance between two repetitions of the year: longer than the data, and each flight keeps its day of the week."""

Day = tuple[date, list[Flight]]


class Replay:
    """Starts, controls and stops the generator."""

    def __init__(self, directory: Path) -> None:
        """Start the generator. The generator publishes nothing before the first `release`."""
        command = [sys.executable, "-m", "airflow_adaptive.local.demo.replay", str(directory)]
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
        yield from ((day + shift, [_shifted(flight, shift) for flight in group]) for day, group in days)


def _shifted(flight: Flight, shift: timedelta) -> Flight:
    return replace(flight, scheduled=flight.scheduled + shift)


def publish(directory: Path, day: date, day_flights: Iterable[Flight]) -> None:
    """Write the file of a day outside the directory and rename the file into it, so that the job never reads a part of a day."""
    unfinished = directory.parent / f"{directory.name}.unfinished"
    unfinished.write_text("".join(f"{as_json(flight)}\n" for flight in day_flights), encoding="utf-8")
    unfinished.rename(directory / f"{day.isoformat()}.json")


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


def replay(directory: Path, releases: Iterable[str]) -> None:
    """Publish day by day up to the date of each release, at the speed of the release."""
    days = endless_days()
    day, day_flights = next(days)
    for release in releases:
        until, days_per_second = release.split()
        while day < date.fromisoformat(until):
            publish(directory, day, day_flights)
            time.sleep(1 / float(days_per_second))
            day, day_flights = next(days)


def main() -> None:
    """Read the command line and replay until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="directory of the published files")
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    releases: SimpleQueue[str] = SimpleQueue()
    Thread(target=replay, args=(directory, iter(releases.get, None)), daemon=True).start()
    for line in sys.stdin:
        releases.put(line)


if __name__ == "__main__":
    main()
