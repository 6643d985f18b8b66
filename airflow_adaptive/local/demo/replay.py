"""The generator, a process of its own: replays the year as a growing directory of files, in event-time order.

Each line on its standard input is a date: days before it are published, at a steady rate. So the story keeps step with
the data however fast the machine is. The end of the input ends the process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO

from airflow_adaptive.local.demo.flights import Flight, flights

END = date(2014, 1, 3)
"""Nothing is left to publish when the days before this one were."""

LAST_WORD = Flight(carrier="--", scheduled=datetime(2014, 1, 2, 12, tzinfo=UTC), delay_minutes=None)
"""Closes the last hour: a flight that never was, late enough for the watermark to pass all others. It is a cancelled one,
in an hour that stays open: it can't be seen in the result."""


class Replay:
    """The generator, seen from the process that started it."""

    def __init__(self, directory: Path, days_per_second: float) -> None:
        """Start the generator; it publishes nothing yet."""
        command = [sys.executable, "-m", "airflow_adaptive.local.demo.replay", str(directory), str(days_per_second)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def release(self, until: date) -> None:
        """Let it publish the days before `until`.

        Raises:
            BrokenPipeError: the generator has ended.
        """
        _stdin(self._process).write(f"{until.isoformat()}\n")
        _stdin(self._process).flush()

    def stop(self) -> None:
        """End it, wherever it is."""
        self._process.kill()
        self._process.communicate()


def _stdin(process: subprocess.Popen[str]) -> IO[str]:
    if process.stdin is None:
        raise BrokenPipeError("the generator was started without a pipe")
    return process.stdin


def days() -> Iterator[tuple[date, list[Flight]]]:
    """The flights by day, in event-time order, and the last word."""
    ordered = sorted([*flights(), LAST_WORD], key=attrgetter("scheduled"))
    return ((day, list(group)) for day, group in groupby(ordered, key=lambda flight: flight.scheduled.date()))


def publish(directory: Path, day: date, day_flights: Iterable[Flight]) -> None:
    """Write a day's file elsewhere and rename it in: the job sees all of it or nothing."""
    unfinished = directory.parent / f"{directory.name}.unfinished"
    unfinished.write_text("".join(f"{as_json(flight)}\n" for flight in day_flights), encoding="utf-8")
    unfinished.rename(directory / f"{day.isoformat()}.json")


def as_json(flight: Flight) -> str:
    """A flight as a line of JSON."""
    return json.dumps(
        {
            "carrier": flight.carrier,
            "scheduled": flight.scheduled.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "departed": flight.departed,
            "delay_minutes": flight.delay_minutes,
        }
    )


def replay(directory: Path, days_per_second: float, releases: Iterable[str]) -> None:
    """Publish day by day, up to each release in turn."""
    pending = list(days())[::-1]
    for release in releases:
        until = date.fromisoformat(release.strip())
        while pending and pending[-1][0] < until:
            publish(directory, *pending.pop())
            time.sleep(1 / days_per_second)


def main() -> None:
    """Read the command line and replay, until there is nobody who could release more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="where the files appear")
    parser.add_argument("days_per_second", type=float, help="how fast")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    releases: SimpleQueue[str] = SimpleQueue()
    arguments = (options.directory, options.days_per_second, iter(releases.get, None))
    Thread(target=replay, args=arguments, daemon=True).start()
    for line in sys.stdin:
        releases.put(line)


if __name__ == "__main__":
    main()
