"""Whether another parallelism is worth a rescale, and how it is carried out.

Theory: FLIP-160's ScaleUpController compares cumulative parallelism, so that a job does not restart for every single
slot; FLIP-291 adds that reaching the ceiling always counts. A decrease is never optional: its slots are gone or were
taken away.
"""

from __future__ import annotations

from collections.abc import Collection
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


def cheapest_tier(
    current: Parallelism, new: Parallelism, *, reads: Collection[str] | None, repartitions: bool, redeployed: bool
) -> Tier:
    """The lowest rung that leads from one parallelism to another.

    Args:
        current: parallelism in force.
        new: parallelism to be reached.
        reads: vertices whose parallelism the script asks for when it builds its queries: only a new query has another one.
            Of the others the executors alone decide. None if that is unknown.
        repartitions: whether the state is to have another number of partitions.
        redeployed: whether the driver is to run something else than it was started with.
    """
    if redeployed:
        return Tier.DRIVER
    if repartitions:
        return Tier.STATE
    changed = {name for name, parallelism in new.items() if current.get(name) != parallelism}
    if reads is None or not changed.isdisjoint(reads):
        return Tier.QUERY
    return Tier.EXECUTORS


def should_rescale(
    current: Parallelism, new: Parallelism, requirements: Requirements, controller: ScaleUpController
) -> bool:
    """Whether the change is sufficient: a decrease, a worthwhile increase, or the ceiling of every vertex."""
    if not parallelism_changed(current, new):
        return False
    decreases = any(new.get(name, 0) < parallelism for name, parallelism in current.items())
    at_ceiling = all(parallelism == requirements[name].upper for name, parallelism in new.items())
    return decreases or at_ceiling or controller.can_scale_up(current, new)
