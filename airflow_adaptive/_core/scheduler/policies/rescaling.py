"""Whether another parallelism justifies a rescale, and the rescale tiers.

Theory: the ScaleUpController of FLIP-160 compares the cumulative parallelism, so that a job does not restart for each new slot.
FLIP-291 adds that reaching all upper bounds always justifies a rescale. A decrease always justifies a rescale, because its
slots are lost or no longer allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from airflow_adaptive._core.scheduler.errors import ScaleUpControllerError
from airflow_adaptive._core.scheduler.requirements import Parallelism, Requirements


class Tier(IntEnum):
    """Rescale tiers, cheapest first."""

    EXECUTORS = 0
    """Executors are added or removed while the queries run."""
    QUERY = 1
    """The queries restart in the running Spark session."""
    STATE = 2
    """The state is repartitioned, and the queries restart in the running Spark session."""
    DRIVER = 3
    """A new driver starts."""


class ScaleUpController(Protocol):
    """Decides whether an increase justifies a rescale (FLIP-160)."""

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """Return whether the change from `current` to `new` justifies a rescale; both have the same vertices."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalIncrease:
    """The default controller of FLIP-160.

    Attributes:
        min_increase: smallest increase of the cumulative parallelism that justifies a rescale, in subtasks.
    """

    min_increase: int = 1

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """Return whether the cumulative parallelism grows by at least `min_increase`."""
        return sum(new.values()) - sum(current.values()) >= self.min_increase


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomController:
    """The controller of a DAG author, whose code may raise any exception.

    Attributes:
        name: name of the class.
        controller: instance of the class.
    """

    name: str
    controller: ScaleUpController

    def can_scale_up(self, current: Parallelism, new: Parallelism) -> bool:
        """Return what the controller decides. Raises `ScaleUpControllerError` if the controller fails."""
        try:
            return bool(self.controller.can_scale_up(current, new))
        except Exception as error:
            raise ScaleUpControllerError(
                f"scale_up_controller {self.name!r} failed ({type(error).__name__})"
            ) from error


def parallelism_changed(current: Parallelism, new: Parallelism) -> bool:
    """Return whether the parallelism of any vertex differs."""
    return dict(current) != dict(new)


def should_rescale(
    current: Parallelism, new: Parallelism, requirements: Requirements, controller: ScaleUpController
) -> bool:
    """Return whether the change is a decrease, reaches all upper bounds, or is an increase that the controller accepts."""
    if not parallelism_changed(current, new):
        return False
    decreases = any(new.get(name, 0) < parallelism for name, parallelism in current.items())
    at_upper_bounds = all(parallelism == requirements[name].upper for name, parallelism in new.items())
    return decreases or at_upper_bounds or controller.can_scale_up(current, new)
