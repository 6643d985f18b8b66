"""Interface between a loop and the rescale policy of its job: the input of the policy, and its advice.

The loop knows only an `Advisor` and no policy. The policies (`airflow_adaptive.autoscaling`) know no loop.

A driver status contains the metrics of the newest batch. Only a comparison with earlier statuses shows that a query receives no more
input, and for how long a batch has been running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange, Requirements
from airflow_adaptive._core.scheduler.state import Deploying, Restarting, WaitingForResources
from airflow_adaptive._core.scheduler.timeline import Rescale, TerminatedReason, TriggerCause


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


IDLE_GRACE: Final = timedelta(seconds=3)
"""A query is idle if no batch has started for this time and one and a half trigger intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """Progress of a query in its last batches.

    Attributes:
        epoch: epoch of the driver.
        committed: number of committed batches in the driver status.
        at: time at which this number was observed first.
        running_since: time from which a batch has been running, None without a running batch.
        is_idle: whether the query has received no input since its last batch.
    """

    epoch: int
    committed: int
    at: datetime
    running_since: datetime | None = None
    is_idle: bool = False


class QueryGauge:
    """Converts the statuses of the drivers of one job into metrics, status by status."""

    def __init__(self) -> None:
        self._progress: dict[str, _Progress] = {}
        self._newest: tuple[int, int] | None = None
        self._metrics: Mapping[str, QueryMetrics] = {}

    def read(self, graph: JobGraph, status: DriverStatus | None, now: datetime) -> Mapping[str, QueryMetrics]:
        """Return the metrics of each active query by name.

        Args:
            graph: graph of the job.
            status: status of the driver of the current epoch, None without a status.
            now: time.
        """
        if status is None:
            return {}
        if (status.epoch, status.sequence) != self._newest:
            self._newest = (status.epoch, status.sequence)
            self._metrics = {
                query.name: self._read(graph, status, query, now) for query in status.queries if query.active
            }
        return self._metrics

    def _read(self, graph: JobGraph, status: DriverStatus, query: QueryReport, now: datetime) -> QueryMetrics:
        progress = _progress(self._progress.get(query.name), query, status.epoch, now)
        self._progress[query.name] = progress
        since = progress.running_since
        measured = _idle(query) if progress.is_idle else _busy(query)
        if query.name in status.gangs:
            measured = replace(measured, busy=None, busy_rate=None, is_real_time=True)
        return replace(
            measured,
            vertices=vertices_of(graph, query.name, len(status.queries)),
            epoch=status.epoch,
            sequence=status.sequence,
            running=None if since is None else (now - since) / timedelta(milliseconds=1),
        )


def state_partitions(graph: JobGraph, queries: Mapping[str, QueryMetrics]) -> Mapping[str, int]:
    """Return the number of state partitions of each query: that of the query's slot sharing group."""
    by_vertex = {
        vertex.name: graph.state_partitions[name] for name, vertices in graph.groups.items() for vertex in vertices
    }
    return {
        name: max((by_vertex[vertex] for vertex in metrics.vertices), default=1) for name, metrics in queries.items()
    }


def _progress(previous: _Progress | None, query: QueryReport, epoch: int, now: datetime) -> _Progress:
    if previous is None or (previous.epoch, previous.committed) != (epoch, query.committed):
        return _Progress(epoch=epoch, committed=query.committed, at=now, running_since=None if query.idle else now)
    if not query.idle:
        # The query may only poll its sources, so it does not count as receiving input.
        return replace(previous, running_since=previous.running_since or now)
    trigger = timedelta(milliseconds=min(query.trigger_interval_ms or 0, 1e12))
    return replace(previous, running_since=None, is_idle=now - previous.at > IDLE_GRACE + 1.5 * trigger)


def vertices_of(graph: JobGraph, query: str, queries: int) -> tuple[str, ...]:
    """Return the vertices of a query: those of its slot sharing group, or all vertices if the job has one query or one group."""
    groups = graph.groups
    if query in groups:
        return tuple(vertex.name for vertex in groups[query])
    if query in graph.max_parallelism:
        return (query,)
    return tuple(graph.max_parallelism) if queries == 1 or len(groups) == 1 else ()


def _busy(query: QueryReport) -> QueryMetrics:
    duration, trigger = query.batch_duration_ms, query.trigger_interval_ms
    measured = query.committed > 0
    return QueryMetrics(
        vertices=(),
        input_rate=query.input_rate,
        busy_rate=_rate(query) if measured else None,
        backlog=query.backlog,
        unread=query.unread_rows,
        busy=min(1.0, duration / (trigger or duration or 1)) if measured else None,
        batch_duration=duration if measured else None,
        trigger_interval=trigger,
        epoch=0,
        sequence=0,
    )


def _idle(query: QueryReport) -> QueryMetrics:
    """Return the metrics of a query without input. Its backlog is zero, because the query would read a backlog."""
    return QueryMetrics(
        vertices=(),
        input_rate=0.0,
        busy_rate=0.0,
        backlog=None if query.backlog is None else 0.0,
        unread=None if query.unread_rows is None else 0.0,
        busy=0.0,
        batch_duration=0.0,
        trigger_interval=query.trigger_interval_ms,
        epoch=0,
        sequence=0,
    )


def _rate(query: QueryReport) -> float:
    return query.batch_rows * 1000 / query.batch_duration_ms if query.batch_duration_ms > 0 else 0.0


RECENT: Final = 10
"""Number of rescales per tier that count; older rescales do not represent the current job and cluster."""

UNDER_WAY: Final = frozenset(state.__name__ for state in (Deploying, Restarting, WaitingForResources))
"""States in which a rescale is in progress. Before these states, the rescale only waits, and the wait may be long."""

MAX_WAIT: Final = timedelta(seconds=30)
"""Part of the wait before a rescale that counts: for the end of a batch, or for the cooldown."""


def rescale_costs(rescales: Iterable[Rescale]) -> Mapping[Tier, timedelta]:
    """Return the longest duration of the newest rescales per tier, from the cause until the new parallelism was active.

    Args:
        rescales: rescales that have ended, oldest first.
    """
    durations: dict[Tier, list[timedelta]] = {}
    for rescale in rescales:
        if rescale.tier is not None and _counts(rescale):
            durations.setdefault(rescale.tier, []).append(_cost(rescale))
    return {tier: max(costs[-RECENT:]) for tier, costs in durations.items()}


def _counts(rescale: Rescale) -> bool:
    """Return whether a rescale changed the parallelism of a running job. A recovery from a failure contains a backoff."""
    is_change = rescale.vertices.before is not None and rescale.vertices.before != rescale.vertices.after
    is_requested = rescale.trigger_cause in (TriggerCause.UPDATE_REQUIREMENT, TriggerCause.NEW_RESOURCE_AVAILABLE)
    return is_change and is_requested and rescale.terminated_reason is TerminatedReason.SUCCEEDED


def _cost(rescale: Rescale) -> timedelta:
    spans = [(span.state in UNDER_WAY, span.left - span.entered) for span in rescale.states]
    carried_out = sum((length for under_way, length in spans if under_way), timedelta(0))
    waited = sum((length for under_way, length in spans if not under_way), timedelta(0))
    return carried_out + min(waited, MAX_WAIT)
