"""What a loop and the rescale policy of its job tell each other: what is seen of the job, and what it is advised to have.

The loop knows no policy, only an `Advisor`; policies (`airflow_adaptive.autoscaling`) know no loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import Parallelism, ParallelismRange, Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexLimits:
    """What the job itself allows a vertex.

    Attributes:
        max_parallelism: most subtasks that it may ever have.
        declared: bounds that its DAG declares.
    """

    max_parallelism: int
    declared: ParallelismRange


def limits_of(graph: JobGraph, declared: Requirements) -> Mapping[str, VertexLimits]:
    """What a job allows each vertex, with these bounds as the declared ones."""
    return {
        vertex.name: VertexLimits(max_parallelism=vertex.effective_max_parallelism, declared=declared[vertex.name])
        for vertex in graph.vertices
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a policy advises.

    Attributes:
        bounds: of every vertex of the job.
        reason: why, in plain words.
        next_at: when the advice changes by itself next, None if it does not.
        source: who set the bounds, for people: "calendar", "load", "calendar and load", or whoever overrides both.
        dry_run: whether it is to be told only, and not acted on.
    """

    bounds: Requirements
    reason: str
    next_at: datetime | None = None
    source: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAdvice:
    """Result of the last consultation of a job's rescale policy.

    Attributes:
        policy: class name of the policy.
        dry_run: whether the advice is only reported, and never followed.
        advice: advice of the policy, None if the policy has no advice yet or has a problem.
        advised_at: time of the last consultation.
        advised_since: time from which the policy has advised the same bounds.
        problem: reason why the policy is not followed, None without a problem.
    """

    policy: str
    dry_run: bool = False
    advice: Advice | None = None
    advised_at: datetime | None = None
    advised_since: datetime | None = None
    problem: str | None = None

    def published(self, *, is_active: bool) -> Mapping[str, Any]:
        """Return the JSON-compatible form for the published state.

        Args:
            is_active: whether the policy set the active requirements.
        """
        return {
            "kind": self.policy,
            "dry_run": self.dry_run,
            "acts": is_active and self.advice is not None,
            "advice": None if self.advice is None else self._published_advice(self.advice),
            "problem": self.problem,
        }

    def _published_advice(self, advice: Advice) -> Mapping[str, Any]:
        return {
            "at": _text(self.advised_at),
            "since": _text(self.advised_since),
            "bounds": {name: {"lower": it.lower, "upper": it.upper} for name, it in advice.bounds.items()},
            "source": advice.source,
            "reason": advice.reason,
            "next_at": _text(advice.next_at),
        }


def without_advised_at(policy: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a published policy without the time of the last consultation, which changes with every consultation."""
    if policy is None or policy["advice"] is None:
        return policy
    return {**policy, "advice": {**policy["advice"], "at": None}}


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMetrics:
    """What was measured of a query; every figure is as it came in, and may be nonsense.

    Attributes:
        vertices: names of its vertices.
        input_rate: rows per second that came in.
        busy_rate: rows per second that it processed while it was busy.
        backlog: rows that it has not read yet, None if its sources do not tell.
        busy: share of the time in which it was busy, 0 to 1.
        batch_duration: of its last batches, in ms.
        trigger_interval: in ms, None if it starts a batch as soon as the last one has ended.
        epoch: of the driver that measured.
        sequence: of the report within the epoch; it does not move while figures are frozen.
        running: how long the batch that runs now has been running, in ms; None if none runs, or if that is unknown.
    """

    vertices: tuple[str, ...]
    input_rate: float | None
    busy_rate: float | None
    backlog: float | None
    busy: float | None
    batch_duration: float | None
    trigger_interval: float | None
    epoch: int
    sequence: int
    running: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Bounds that a person has set; they win over a policy.

    Attributes:
        by: who, for people.
        until: when they expire, None if they hold until they are lifted.
    """

    by: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInput:
    """What is known of a job at an instant.

    Attributes:
        at: the instant, with a time zone.
        requirements: in force, of every vertex.
        limits: what the job allows, per vertex.
        parallelism: in force, None while it does not run.
        queries: figures per query (slot sharing group).
        rescale_costs: how long a rescale took until its parallelism was in force, per tier, as measured.
        state_partitions: partitions of the state, by slot sharing group.
        override: of a person, None if there is none.
        tier: rung of the ladder that a change of parallelism takes, None if that is unknown.
    """

    at: datetime
    requirements: Requirements
    limits: Mapping[str, VertexLimits]
    parallelism: Parallelism | None = None
    queries: Mapping[str, QueryMetrics] = field(default_factory=dict)
    rescale_costs: Mapping[Tier, timedelta] = field(default_factory=dict)
    state_partitions: Mapping[str, int] = field(default_factory=dict)
    override: Override | None = None
    tier: Tier | None = None


class Advisor(Protocol):
    """A rescale policy with its memory of one job."""

    @property
    def kind(self) -> str:
        """Name of the policy's class."""
        ...

    @property
    def dry_run(self) -> bool:
        """Whether its advice is told only."""
        ...

    def restore(self, snapshot: Any) -> str | None:
        """Continue with the memory of an earlier loop; return why the memory is invalid, None if it is valid or missing."""
        ...

    def to_snapshot(self) -> Mapping[str, Any]:
        """Return the memory for the next loop, JSON-compatible."""
        ...

    def advise(self, seen: PolicyInput) -> Advice | None:
        """What the job is to have; None: nothing to say yet.

        Raises:
            ValueError: the job can't have what the policy wants; says why. Or whatever else the policy raises.
        """
        ...
