"""A load over time: read from CSV, with everything that is wrong with it told at once."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

from airflow_adaptive.autoscaling.policy import RescalePolicyError

LEAST_POINTS = 2

MOST_FINDINGS = 10
"""A file that is no trace at all is not quoted line by line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Rows that come in per second, constant from each time to the next.

    Attributes:
        start: of the first point.
        times: seconds from the start of each point, and of the end of the last one.
        rates: rows per second from each time to the next; one fewer than `times`.
        totals: rows that have come in until each time.
    """

    start: datetime
    times: tuple[float, ...]
    rates: tuple[float, ...]
    totals: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[float], rates: Sequence[float], start: datetime) -> Trace:
        """From the times at which a rate begins; the last one holds for as long as most do."""
        step = median(after - before for before, after in pairwise(times))
        ends = (*times, times[-1] + step)
        rows = (rate * (after - before) for rate, (before, after) in zip(rates, pairwise(ends), strict=True))
        return cls(start=start, times=ends, rates=tuple(rates), totals=tuple(accumulate(rows, initial=0.0)))

    @property
    def duration(self) -> float:
        """Seconds from begin to end."""
        return self.times[-1]

    @property
    def peak(self) -> float:
        """Highest rate."""
        return max(self.rates)

    @property
    def mean(self) -> float:
        """Mean rate."""
        return self.totals[-1] / self.duration

    def part(self, begin: float, end: float) -> Trace:
        """The points from one second to another; it starts with the first of them.

        Raises:
            RescalePolicyError: there are too few.
        """
        kept = [(at, rate) for at, rate in zip(self.times, self.rates, strict=False) if begin <= at < end]
        if len(kept) < LEAST_POINTS:
            raise RescalePolicyError("trace", [f"fewer than {LEAST_POINTS} points are left of it: take a longer part"])
        first = kept[0][0]
        start = self.start + timedelta(seconds=first)
        return Trace.of([at - first for at, _ in kept], [rate for _, rate in kept], start)


def read_trace(path: Path) -> Trace:
    """The trace of a CSV file with the columns time and value, with or without a header.

    A time is ISO 8601 (UTC unless it says else) or seconds since the epoch; a value is the load from then on, in any unit.

    Raises:
        RescalePolicyError: listing every line that can't be used, or why the file can't be read.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [
                (number, row) for number, row in enumerate(csv.reader(file), 1) if any(cell.strip() for cell in row)
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RescalePolicyError(f"trace {path}", [f"cannot be parsed: {error}"]) from error
    points, wrong = _points(rows[1:] if rows and _is_header(rows[0][1]) else rows)
    if not wrong:
        wrong = list(_sequence_violations(points))
    if wrong:
        shown = wrong[:MOST_FINDINGS]
        more = [f"and {len(wrong) - len(shown)} more"] if len(wrong) > len(shown) else []
        raise RescalePolicyError(f"trace {path}", shown + more)
    start = points[0][1]
    return Trace.of([(at - start).total_seconds() for _, at, _ in points], [value for _, _, value in points], start)


def _is_header(row: Sequence[str]) -> bool:
    return len(row) > 1 and _number(row[1]) is None and _time(row[0]) is None


def _points(rows: Iterable[tuple[int, Sequence[str]]]) -> tuple[list[tuple[int, datetime, float]], list[str]]:
    points: list[tuple[int, datetime, float]] = []
    wrong: list[str] = []
    for line, row in rows:
        at = _time(row[0])
        value = _number(row[1]) if len(row) > 1 else None
        if at is None:
            wrong.append(f"line {line}: {row[0]!r} is no time: give ISO 8601, or seconds since the epoch")
        elif value is None or not math.isfinite(value) or value < 0:
            told = row[1] if len(row) > 1 else ""
            wrong.append(f"line {line}: {told!r} is no load: give a number of at least 0")
        else:
            points.append((line, at, value))
    return points, wrong


def _sequence_violations(points: Sequence[tuple[int, datetime, float]]) -> Iterator[str]:
    if len(points) < LEAST_POINTS:
        yield f"has {len(points)} point(s): at least {LEAST_POINTS} are needed"
        return
    for (_, before, _), (line, at, _) in pairwise(points):
        if at <= before:
            yield f"line {line}: {at.isoformat()} does not come after the line before: sort the lines, each time once"
    if not any(value for _, _, value in points):
        yield "has no load at all: every value is 0"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _time(text: str) -> datetime | None:
    try:
        seconds = _number(text)
        moment = datetime.fromisoformat(text.strip()) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
