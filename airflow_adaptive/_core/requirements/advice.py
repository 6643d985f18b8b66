"""Interface between a loop and the rescale policy of its job: the input of the policy, and its advice.

The loop knows only an `Advisor` and no policy. The policies (`airflow_adaptive.autoscaling`) know no loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange, Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexLimits:
    """Limits that a job sets for one of its vertices.

    Attributes:
        max_parallelism: maximum parallelism of the vertex, in subtasks.
        declared: bounds without a user and a policy: those of a calendar in a DAG of its own, else those of the job's DAG.
    """

    max_parallelism: int
    declared: ParallelismRange


def limits_of(graph: JobGraph, declared: Requirements) -> Mapping[str, VertexLimits]:
    """Return the limits of every vertex of a job.

    Args:
        graph: graph of the job.
        declared: bounds of every vertex without a user and a policy.
    """
    return {
        vertex.name: VertexLimits(max_parallelism=vertex.effective_max_parallelism, declared=declared[vertex.name])
        for vertex in graph.vertices
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice of a policy.

    Attributes:
        bounds: advised bounds of every vertex of the job.
        reason: human-readable reason.
        next_at: time of the next change of the advice that needs no new metrics, None if there is none.
        source: human-readable source of the bounds: "calendar", "load", or "calendar and load".
    """

    bounds: Requirements
    reason: str
    next_at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAdvice(Advice):
    """Advice of a rescale policy.

    Attributes:
        at: time of the advice.
        since: time since which the policy has advised these bounds.
        bounds: advised bounds of every vertex.
        source: human-readable source of the bounds.
        reason: human-readable reason.
        next_at: time at which the policy changes its advice, None for never.
    """

    at: datetime
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPolicy:
    """The rescale policy of a job.

    Attributes:
        kind: class name of the policy.
        dry_run: whether the policy only reports its advice.
        active: whether the policy set the active bounds.
        advice: the last advice, None without one. No policy is consulted while an override of a user holds.
        problem: reason why the advice is not applied, None without a problem.
    """

    kind: str
    dry_run: bool = False
    active: bool = False
    advice: PublishedAdvice | None = None
    problem: str | None = None

    @property
    def timeless(self) -> PublishedPolicy:
        """The same without the time of the advice, for a comparison."""
        return self if self.advice is None else replace(self, advice=replace(self.advice, at=self.advice.since))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMetrics:
    """Metrics of a query, as the driver measured them. The values are not validated.

    Attributes:
        vertices: names of the vertices of the query.
        input_rate: input rate, in rows per second.
        busy_rate: rows per second that the query processes while it is busy.
        backlog: rows that the query had not read when the newest batch began, None if its sources do not report a backlog.
        unread: rows that the query has not committed yet, None if its sources do not report them.
        busy: share of the time in which the query is busy, from 0 to 1.
        batch_duration: duration of the last batches, in ms.
        trigger_interval: interval between the starts of two batches, in ms; None if batches follow each other without a pause.
        epoch: epoch of the driver that measured the metrics.
        sequence: sequence number of the driver status within the epoch; it stays the same while the metrics are frozen.
        running: time for which the current batch has been running, in ms; None without a current batch or if it is unknown.
        is_real_time: whether the query runs in Real-Time Mode. Each of its batches then lasts for its interval, whatever the load, so
            `busy` and `busy_rate` are None.
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
    unread: float | None = None
    is_real_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInput:
    """Input of a policy: a job at one point in time.

    Attributes:
        at: time of the input, with a time zone.
        requirements: active bounds of every vertex.
        limits: limits of every vertex.
        parallelism: active parallelism of every vertex, None while the job does not run.
        queries: metrics per query (slot sharing group).
        rescale_costs: measured time from the cause of a rescale until its parallelism was active, per rescale tier.
        state_partitions: partitions of the state, per query (slot sharing group).
        tier: rescale tier that a change of parallelism takes, None if it is unknown.
    """

    at: datetime
    requirements: Requirements
    limits: Mapping[str, VertexLimits]
    parallelism: Parallelism | None = None
    queries: Mapping[str, QueryMetrics] = field(default_factory=dict)
    rescale_costs: Mapping[Tier, timedelta] = field(default_factory=dict)
    state_partitions: Mapping[str, int] = field(default_factory=dict)
    tier: Tier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMemory:
    """Memory that a rescale policy has of one job.

    Attributes:
        kind: class name of the policy.
        at: time of the last consultation.
        content: value of the policy, or its encoded form until `Advisor.recall` has decoded it.
    """

    kind: str
    at: datetime
    content: Any


class Advisor(Protocol):
    """A rescale policy, as a loop consults it."""

    @property
    def kind(self) -> str:
        """Class name of the policy."""

    @property
    def dry_run(self) -> bool:
        """Whether the advice is only reported, and never followed."""

    def recall(self, memory: PolicyMemory) -> PolicyMemory | None:
        """Return the memory that an earlier loop wrote, None for the memory of another policy.

        Raises:
            ValueError: the memory is invalid.
        """

    def advise(
        self, memory: PolicyMemory | None, policy_input: PolicyInput
    ) -> tuple[PolicyMemory | None, Advice | None]:
        """Return the new memory, and the advice, None if the policy has no advice yet.

        Raises:
            ValueError: the job cannot have the bounds that the policy wants. A policy may raise any other exception, too.
        """
