"""What a run has written: throughput, delays, lost and duplicated results."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.lab.benchmarks.nexmark.results import Result


@dataclass(frozen=True, slots=True)
class Written:
    """A record of the output: when it was written, Unix milliseconds, and its result."""

    at: int
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times of a run, Unix milliseconds.

    Attributes:
        begin: the job runs; all events of the backlog exist.
        backlog: time of the newest result that follows from the backlog.
        low: from here on, events arrive at the low rate.
        high: from here on, at the high rate; the rescale is requested at the same time.
        steady: the rescale is over.
        end: the newest event.
    """

    begin: int
    backlog: int
    low: int
    high: int
    steady: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a system has achieved.

    Attributes:
        throughput: events of the backlog per second.
        low_ms: median delay at the low rate.
        worst_ms: greatest delay of a result that is due while the load doubles and the job rescales.
        pause_ms: longest time without a record in the output while the load doubles and the job rescales.
        high_ms: median delay at the high rate, after the rescale.
        lost: results that are missing.
        duplicated: results that were written more than once.
        wrong: results that should not exist.
    """

    throughput: float
    low_ms: float
    worst_ms: float
    pause_ms: float
    high_ms: float
    lost: int
    duplicated: int
    wrong: int


def parse(lines: Iterable[str]) -> list[Written]:
    """Return the records that Kafka's console consumer prints, with their times."""
    found = []
    for line in lines:
        time, _, value = line.partition("\t")
        row = json.loads(value)
        found.append(Written(int(time.partition(":")[2]), (row["id"], row["num"], row["at"])))
    return found


def measure(written: Sequence[Written], expected: set[Result], events: int, times: Times) -> Measured:
    """Measure a run with a backlog of that many events."""
    first: dict[Result, int] = {}
    for one in written:
        first.setdefault(one.result, one.at)
    counts = Counter(one.result for one in written)
    took_ms = max(at for result, at in first.items() if result[2] <= times.backlog) - times.begin
    return Measured(
        throughput=events * 1000 / took_ms,
        low_ms=_median(_delays(first, times.low, times.high)),
        worst_ms=max(_delays(first, times.high, times.steady), default=math.nan),
        pause_ms=_longest_pause([one.at for one in written], times.high, times.steady),
        high_ms=_median(_delays(first, times.steady, times.end)),
        lost=len(expected - counts.keys()),
        duplicated=sum(counts.values()) - len(counts),
        wrong=len(counts.keys() - expected),
    )


def _delays(first: dict[Result, int], begin: int, end: int) -> list[int]:
    """Return the delays of the results that are due in an interval."""
    return [at - result[2] for result, at in first.items() if begin <= result[2] < end]


def _median(delays: Sequence[int]) -> float:
    """Return the median, or NaN if all results were lost."""
    return statistics.median(delays) if delays else math.nan


def _longest_pause(written: Sequence[int], begin: int, end: int) -> int:
    """Return the longest time without a record in an interval, from these times of all records."""
    within = sorted({begin, end, *(at for at in written if begin < at < end)})
    return max(later - earlier for earlier, later in pairwise(within))
