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

    def recall(self, told: Any) -> str | None:
        """Go on with what `told` gave to the log; why that can't be used, None if it can, or if there is none."""
        ...

    def told(self) -> Mapping[str, Any]:
        """What the next loop must know, as JSON-able values."""
        ...

    def advise(self, seen: PolicyInput) -> Advice | None:
        """What the job is to have; None: nothing to say yet.

        Raises:
            ValueError: the job can't have what the policy wants; says why. Or whatever else the policy raises.
        """
        ...
