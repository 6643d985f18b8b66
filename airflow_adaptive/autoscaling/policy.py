"""What a rescale policy is: from what is seen of a job, and what it remembers, to the bounds that it advises.

A policy writes resource requirements and nothing else: cooldown, stabilisation, tiers and safety stay with the
scheduler. It is pure: no clock, no I/O, no randomness. Policies and memories are frozen dataclasses that
`scheduler.snapshot.encode` and `decode` write and read, since they go into a trigger's arguments and the job's log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from airflow_adaptive.runtime.requirements.advice import Advice, Override, PolicyInput, QueryMetrics, VertexLimits
from airflow_adaptive.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange, Requirements

__all__ = [
    "EVERY_VERTEX",
    "Advice",
    "Bounds",
    "Override",
    "PolicyInput",
    "QueryMetrics",
    "RescalePolicy",
    "RescalePolicyError",
    "VertexLimits",
    "dry_run_violations",
]
"""With what a loop and its policy tell each other (`runtime.requirements.advice`)."""

EVERY_VERTEX = "*"
"""Name under which `Bounds` has what holds for every vertex that it does not name."""


class RescalePolicyError(ValueError):
    """A policy that can't be used; the message lists every violation.

    Attributes:
        violations: each names the thing and the fix.
    """

    def __init__(self, subject: str, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"{subject}: " + "; ".join(self.violations))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a policy wants: bounds per vertex, or `EVERY_VERTEX` for those that are not named.

    A vertex that is neither named nor meant by `EVERY_VERTEX` keeps what its DAG declares; a bound of -1 is its default
    (FLIP-291).
    """

    vertices: Mapping[str, ParallelismRange]

    @classmethod
    def of(cls, bounds: Bounds | int | Sequence[int] | Mapping[str, Any]) -> Bounds:
        """From bounds of every vertex (a number, or a lower and an upper one), or from a mapping of vertex to bounds.

        Raises:
            ValueError: it is none of these.
        """
        if isinstance(bounds, Bounds):
            return bounds
        if not isinstance(bounds, Mapping):
            bounds = {EVERY_VERTEX: bounds}
        return cls(vertices={str(name): _range(wanted) for name, wanted in bounds.items()})

    def violations(self, limits: Mapping[str, VertexLimits] | None = None) -> list[str]:
        """Everything that is wrong with them: in themselves, and for these limits if they are known."""
        wrong = (
            [] if self.vertices else ["no vertex has bounds: give a number, a pair (lower, upper), or vertex: bounds"]
        )
        for name, wanted in self.vertices.items():
            wrong += _crossed(name, wanted)
        if limits is not None:
            wrong += [
                f"the job has no vertex {name!r}: it has {', '.join(map(repr, limits))}"
                for name in self._strange(limits)
            ]
            wrong += [violation for name in limits for violation in self._too_much(name, limits[name])]
        return list(dict.fromkeys(wrong))

    def complete(self, limits: Mapping[str, VertexLimits]) -> Requirements:
        """The bounds of every vertex of the job, with -1 replaced by the default."""
        return {name: self._expanded(name, limit) for name, limit in limits.items()}

    def _strange(self, limits: Mapping[str, VertexLimits]) -> list[str]:
        return [name for name in self.vertices if name != EVERY_VERTEX and name not in limits]

    def _expanded(self, name: str, limit: VertexLimits) -> ParallelismRange:
        wanted = self.vertices.get(name, self.vertices.get(EVERY_VERTEX, limit.declared))
        upper = limit.declared.upper if wanted.upper == RESET_TO_DEFAULT else wanted.upper
        return ParallelismRange(1 if wanted.lower == RESET_TO_DEFAULT else wanted.lower, upper)

    def _too_much(self, name: str, limit: VertexLimits) -> list[str]:
        expanded = self._expanded(name, limit)
        if expanded.upper > limit.max_parallelism:
            return [
                f"upper bound {expanded.upper} of vertex {name!r} is above its max_parallelism {limit.max_parallelism}: lower it"
            ]
        return _crossed(name, expanded)


Memory = TypeVar("Memory")


class RescalePolicy(Protocol[Memory]):
    """Advises bounds; a frozen dataclass."""

    def remember(self) -> Memory:
        """The memory to begin with."""
        ...

    def advise(self, memory: Memory, seen: PolicyInput) -> tuple[Memory, Advice | None]:
        """What to remember, and what to have now; None: nothing to say.

        Raises:
            RescalePolicyError: the job can't have what the policy wants; lists everything.
        """
        ...


def dry_run_violations(dry_run: object) -> list[str]:
    """What is wrong with a policy's `dry_run`."""
    return [] if isinstance(dry_run, bool) else [f"dry_run is {dry_run!r}: give True or False"]


def _range(wanted: Any) -> ParallelismRange:
    bounds = wanted if isinstance(wanted, ParallelismRange) else ParallelismRange.of(wanted)
    if any(isinstance(bound, bool) for bound in (bounds.lower, bounds.upper)):
        raise ValueError(f"parallelism {wanted!r} must be a whole number, or a pair of them (lower, upper)")
    return bounds


def _crossed(name: str, bounds: ParallelismRange) -> list[str]:
    vertex = "every vertex" if name == EVERY_VERTEX else f"vertex {name!r}"
    too_low = [bound for bound in (bounds.lower, bounds.upper) if bound < 1 and bound != RESET_TO_DEFAULT]
    if too_low:
        return [f"bound {too_low[0]} of {vertex} must be at least 1 (-1 is its default)"]
    if RESET_TO_DEFAULT not in (bounds.lower, bounds.upper) and bounds.lower > bounds.upper:
        return [f"lower bound {bounds.lower} of {vertex} is above its upper bound {bounds.upper}: swap them"]
    return []
