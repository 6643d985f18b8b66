"""Interface of rescale policies: a policy derives advised bounds from the observed job and from its own memory.

A policy sets resource requirements and nothing else: the scheduler owns cooldown, stabilization, rescale tiers and safety. A policy is
pure: it uses no clock, no I/O and no randomness. Policies and their memories are frozen dataclasses, which `_core.codec.encode`
and `_core.scheduler.snapshot.decode` convert for the arguments of a trigger and for the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from airflow_adaptive._core.failure_code import error_code
from airflow_adaptive._core.requirements.advice import Advice, PolicyInput, VertexLimits
from airflow_adaptive._core.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange, Requirements, expand

EVERY_VERTEX = "*"
"""Key in `Bounds` of the bounds for every vertex without a key of its own."""


class RescalePolicyError(ValueError):
    """A policy is invalid; the message lists every violation.

    Attributes:
        violations: violations, each with the name of the invalid value and the fix.
    """

    def __init__(self, subject: str, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__(f"{subject}: {'; '.join(self.violations)} [{error_code(self)}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds that a policy sets, per vertex; the key `EVERY_VERTEX` stands for every vertex without a key of its own.

    A vertex without bounds keeps the bounds that its DAG declares. A bound of -1 stands for the default (FLIP-291).
    """

    vertices: Mapping[str, ParallelismRange]

    @classmethod
    def of(cls, bounds: Bounds | int | Sequence[int] | Mapping[str, Any]) -> Bounds:
        """Return the bounds for a number, a pair (lower, upper), or a mapping of vertex to a number or a pair.

        Raises:
            ValueError: the value has none of these forms.
        """
        if isinstance(bounds, Bounds):
            return bounds
        if not isinstance(bounds, Mapping):
            bounds = {EVERY_VERTEX: bounds}
        return cls(vertices={str(name): _range(given) for name, given in bounds.items()})

    def violations(self, limits: Mapping[str, VertexLimits] | None = None) -> list[str]:
        """Return every violation: contradictions, and bounds that exceed the limits of the job if the limits are known."""
        wrong = (
            []
            if self.vertices
            else ["no vertex has bounds: use a number, a pair (lower, upper), or a mapping of vertices to bounds"]
        )
        for name, given in self.vertices.items():
            wrong += _crossed(name, given)
        if limits is not None:
            wrong += [
                f"the job has no vertex {name!r}: it has {', '.join(map(repr, limits))}"
                for name in self.vertices
                if name not in (EVERY_VERTEX, *limits)
            ]
            wrong += [violation for name in limits for violation in self._exceeding(name, limits[name])]
        return list(dict.fromkeys(wrong))

    def complete(self, limits: Mapping[str, VertexLimits]) -> Requirements:
        """Return the bounds of every vertex of a job, with -1 replaced by the default."""
        return {name: self._expanded(name, limit) for name, limit in limits.items()}

    def _expanded(self, name: str, limit: VertexLimits) -> ParallelismRange:
        return expand(self.vertices.get(name, self.vertices.get(EVERY_VERTEX, limit.declared)), limit.declared)

    def _exceeding(self, name: str, limit: VertexLimits) -> list[str]:
        expanded = self._expanded(name, limit)
        if expanded.upper > limit.max_parallelism:
            return [
                f"upper bound {expanded.upper} of vertex {name!r} is above its max_parallelism {limit.max_parallelism}: decrease the bound"
            ]
        return _crossed(name, expanded)


Memory = TypeVar("Memory")


class RescalePolicy(Protocol[Memory]):
    """A policy that advises bounds; a frozen dataclass."""

    def remember(self) -> Memory:
        """Return the memory before the first consultation."""

    def advise(self, memory: Memory, policy_input: PolicyInput) -> tuple[Memory, Advice | None]:
        """Return the new memory, and the advice; no advice if the policy does not know enough yet.

        Args:
            memory: memory of the last consultation.
            policy_input: the job at the time of the consultation.

        Raises:
            RescalePolicyError: the job cannot have the bounds that the policy wants; the message lists every violation.
        """


def dry_run_violations(dry_run: object) -> list[str]:
    """Return the violations of the value of a policy's `dry_run`."""
    return [] if isinstance(dry_run, bool) else [f"dry_run must be True or False, not {dry_run!r}"]


def _range(given: Any) -> ParallelismRange:
    bounds = given if isinstance(given, ParallelismRange) else ParallelismRange.of(given)
    if any(isinstance(bound, bool) for bound in (bounds.lower, bounds.upper)):
        raise ValueError(f"parallelism {given!r} must be a whole number, or a pair of them (lower, upper)")
    return bounds


def _crossed(name: str, bounds: ParallelismRange) -> list[str]:
    vertex = "every vertex" if name == EVERY_VERTEX else f"vertex {name!r}"
    too_low = [bound for bound in (bounds.lower, bounds.upper) if bound < 1 and bound != RESET_TO_DEFAULT]
    if too_low:
        return [f"bound {too_low[0]} of {vertex} must be at least 1 (-1 is its default)"]
    if RESET_TO_DEFAULT not in (bounds.lower, bounds.upper) and bounds.lower > bounds.upper:
        return [f"lower bound {bounds.lower} of {vertex} is above its upper bound {bounds.upper}: swap them"]
    return []
