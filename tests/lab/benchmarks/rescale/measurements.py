"""What is made of logs and outputs: the cost of each rescale, and statistics over all of them."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
P95: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time from one moment to another, both seconds since the epoch."""

    begin: float
    end: float

    def has(self, moment: float) -> bool:
        """Whether a moment lies in it; its end does not."""
        return self.begin <= moment < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that was committed.

    Attributes:
        run: Spark's id of the run of the query; another one after a restart.
        number: of the batch.
        span: from the begin of its trigger until it was committed.
        logged: what of the source's log it read: above the first number, up to the second.
    """

    run: str
    number: int
    span: Span
    logged: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A rescale as it was ordered.

    Attributes:
        slots: that the job was to have.
        window: from the order until some seconds after it took effect.
        steady: what followed, in which nothing was changed.
    """

    slots: int
    window: Span
    steady: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """What one rescale cost; all times in seconds.

    Attributes:
        slots: that the job was to have.
        dead_s: no batch ran.
        missed: batches of steady running that the dead time would have held.
        effect_s: from the order until work was begun on the new slots.
        slot_s: of it, until the new slots were there.
        delay_s: worst of the records that came from the order until some seconds after the rescale took effect.
        steady_delay_s: worst of those that came later, while nothing was changed.
    """

    slots: int
    dead_s: float
    missed: int
    effect_s: float
    slot_s: float
    delay_s: float
    steady_delay_s: float


# ---- of a rescale ---------------------------------------------------------------------------------------------------


def restart(batches: Sequence[Batch], order: Order) -> tuple[Batch, Batch]:
    """The last batch of the old run and the first one of the new run.

    Raises:
        ValueError: there was no restart.
    """
    for old, new in pairwise(batches):
        if new.run != old.run and order.window.has(new.span.begin):
            return old, new
    raise ValueError("no other run of the query began")


def longest_pause(batches: Sequence[Batch], span: Span) -> float:
    """Longest time between two batches of which the later one began in that span; 0 without any."""
    gaps = [new.span.begin - old.span.end for old, new in pairwise(batches) if span.has(new.span.begin)]
    return max([0.0, *gaps])


def period(batches: Sequence[Batch], orders: Sequence[Order]) -> float:
    """Median time from the begin of a batch to that of the next one, while nothing is changed.

    Raises:
        ValueError: there are no two batches.
    """
    times = [
        new.span.begin - old.span.begin
        for old, new in pairwise(batches)
        if any(order.steady.has(old.span.begin) and order.steady.has(new.span.begin) for order in orders)
    ]
    if not times:
        raise ValueError("no two batches while nothing was changed")
    return statistics.median(times)


def missed(dead_s: float, steady_pause_s: float, period_s: float) -> int:
    """Batches of steady running that a dead time would have held, beyond the pause that there is anyway."""
    return max(0, math.floor((dead_s - steady_pause_s) / period_s))


def worst_delay(came: Mapping[int, float], seen: Mapping[int, float], span: Span) -> float:
    """Longest time from the moment at which a file came until what was counted of it could be seen.

    Args:
        came: when, by the number of the file.
        seen: when.
        span: in which the file came.

    Raises:
        ValueError: none came, or one was never seen.
    """
    numbers = [number for number, at in came.items() if span.has(at)]
    unseen = [number for number in numbers if number not in seen]
    if not numbers or unseen:
        raise ValueError(f"of the files {numbers} these never came out: {unseen}")
    return max(seen[number] - came[number] for number in numbers)


# ---- over all of them -----------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float) -> float:
    """Below which that share of the values lies, linear between two."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and the interval in which 95 % of what resamples give lie."""

    value: float
    low: float
    high: float


def median(values: Sequence[float]) -> Estimate:
    """Of some values, with its bootstrap interval."""
    return _estimate(statistics.median, values)


def ratio(values: Sequence[float], others: Sequence[float]) -> Estimate | None:
    """Of the medians of two samples that were taken apart, with its bootstrap interval; None if it has no sense."""
    if min(map(statistics.median, (values, others))) <= 0:
        return None
    draw = random.Random(0)
    drawn = [_median_of(draw, values) / max(_median_of(draw, others), 1e-3) for _ in range(RESAMPLES)]
    return _interval(statistics.median(values) / statistics.median(others), drawn)


def _estimate(statistic: Callable[[Sequence[float]], float], values: Sequence[float]) -> Estimate:
    draw = random.Random(0)
    return _interval(statistic(values), [statistic(draw.choices(values, k=len(values))) for _ in range(RESAMPLES)])


def _median_of(draw: random.Random, values: Sequence[float]) -> float:
    return statistics.median(draw.choices(values, k=len(values)))


def _interval(value: float, drawn: Iterable[float]) -> Estimate:
    all_drawn = list(drawn)
    outside = (1 - CONFIDENCE) / 2
    return Estimate(value=value, low=percentile(all_drawn, outside), high=percentile(all_drawn, 1 - outside))
