"""Whether another parallelism is worth a rescale, and how it is carried out.

Theory: FLIP-160's ScaleUpController compares cumulative parallelism, so that a job does not restart for every single
slot; FLIP-291 adds that reaching the ceiling always counts. A decrease is never optional: its slots are gone or were
taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from airflow_adaptive.scheduler.requirements import Parallelism, Requirements


class Tier(IntEnum):
    """Rungs of the rescale ladder, cheapest first."""

    EXECUTORS = 0
    """Executors added or removed under the running query."""
    QUERY = 1
    """The query restarted inside the living Spark session."""
    STATE = 2
    """The state repartitioned, then the query restarted."""
    DRIVER = 3
    """A new driver."""


class ScaleUpController(Protocol):
    """Decides whether an increase is worth a rescale (FLIP-160)."""

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """Whether going from `current` to `new` is worth it; both name the same vertices."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalIncrease:
    """FLIP-160's default controller: rescale when the cumulative parallelism grows by at least `min_increase`."""

    min_increase: int = 1

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """See `ScaleUpController`."""
        return sum(new.values()) - sum(current.values()) >= self.min_increase


def parallelism_changed(current: Parallelism, new: Parallelism) -> bool:
    """Whether any vertex differs."""
    return dict(current) != dict(new)


def should_rescale(
    current: Parallelism, new: Parallelism, requirements: Requirements, controller: ScaleUpController
) -> bool:
    """Whether the change is sufficient: a decrease, a worthwhile increase, or the ceiling of every vertex."""
    if not parallelism_changed(current, new):
        return False
    decreases = any(new.get(name, 0) < parallelism for name, parallelism in current.items())
    at_ceiling = all(parallelism == requirements[name].upper for name, parallelism in new.items())
    return decreases or at_ceiling or controller.can_scale_up(current, new)
