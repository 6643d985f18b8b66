"""A load over time, read from a CSV file; one error lists all violations of the file."""

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

MIN_POINTS = 2

MAX_VIOLATIONS = 10
"""Maximum number of violations in one error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Input rates, constant between two times.

    Attributes:
        start: time of the first point.
        times: seconds from the start to each point and to the end of the last point.
        rates: input rows per second between two times; one value less than `times`.
        totals: input rows from the start to each time.
    """

    start: datetime
    times: tuple[float, ...]
    rates: tuple[float, ...]
    totals: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[float], rates: Sequence[float], start: datetime) -> Trace:
        """Create a trace from the times at which rates begin; the last rate has the median duration."""
        step = median(after - before for before, after in pairwise(times))
        ends = (*times, times[-1] + step)
        rows = (rate * (after - before) for rate, (before, after) in zip(rates, pairwise(ends), strict=True))
        return cls(start=start, times=ends, rates=tuple(rates), totals=tuple(accumulate(rows, initial=0.0)))

    @property
    def duration(self) -> float:
        """Duration in seconds."""
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
        """Return the points between two times, in seconds from the start; the part starts with its first point.

        Raises:
            RescalePolicyError: the part has too few points.
        """
        kept = [(at, rate) for at, rate in zip(self.times, self.rates, strict=False) if begin <= at < end]
        if len(kept) < MIN_POINTS:
            raise RescalePolicyError("trace", [f"fewer than {MIN_POINTS} points are left: use a longer part"])
        first = kept[0][0]
        start = self.start + timedelta(seconds=first)
        return Trace.of([at - first for at, _ in kept], [rate for _, rate in kept], start)


def read_trace(path: Path) -> Trace:
    """Return the trace of a CSV file with the columns time and value, with or without a header.

    A time is ISO 8601 (UTC by default) or seconds since the epoch. A value is the load from that time on, in any unit.

    Raises:
        RescalePolicyError: lists every invalid line, or the reason why the file cannot be read.
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
        listed = wrong[:MAX_VIOLATIONS]
        more = [f"and {len(wrong) - len(listed)} more"] if len(wrong) > len(listed) else []
        raise RescalePolicyError(f"trace {path}", listed + more)
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
            wrong.append(f"line {line}: {row[0]!r} is not a time: use ISO 8601 or seconds since the epoch")
        elif value is None or not math.isfinite(value) or value < 0:
            text = row[1] if len(row) > 1 else ""
            wrong.append(f"line {line}: {text!r} is not a load: use a number of at least 0")
        else:
            points.append((line, at, value))
    return points, wrong


def _sequence_violations(points: Sequence[tuple[int, datetime, float]]) -> Iterator[str]:
    if len(points) < MIN_POINTS:
        yield f"has {len(points)} point(s): at least {MIN_POINTS} are needed"
        return
    for (_, before, _), (line, at, _) in pairwise(points):
        if at <= before:
            yield f"line {line}: {at.isoformat()} is not after the previous line: sort the lines and remove duplicates"
    if not any(value for _, _, value in points):
        yield "the trace has no load: every value is 0"


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
