"""What happened and why: transitions, and the decisions that led to one or to none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import Parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A change of state.

    Attributes:
        at: when.
        source: name of the state that was left.
        target: name of the state that was entered.
        version: version of the state that was entered.
        before: parallelism in force when the state was left, None if no plan was.
        after: parallelism of the state that was entered, None if it has no plan.
        tier: rung of the rescale ladder, None if this is no part of a rescale.
        reason: why, in plain words.
    """

    at: datetime
    source: str
    target: str
    version: int
    before: Parallelism | None
    after: Parallelism | None
    tier: Tier | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why the scheduler did something, or nothing.

    Attributes:
        at: when.
        state: name of the state in which it was decided.
        reason: in plain words.
    """

    at: datetime
    state: str
    reason: str
