"""Graph of a job for the scheduler: vertices, their bounds, and their slot sharing groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_adaptive._core.scheduler.errors import JobGraphError
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange, Requirements

DEFAULT_VERTEX = "job"
"""Name of the only vertex of a job that declares no graph."""

DEFAULT_SLOT_SHARING_GROUP = "default"

MIN_DEFAULT_MAX_PARALLELISM = 128
UPPER_BOUND_MAX_PARALLELISM = 32768


class JobType(StrEnum):
    """Whether the input of the job is unbounded (STREAMING) or bounded (BATCH)."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVertex:
    """A named stage of the pipeline. The plan contains its parallelism, which the script may read.

    Attributes:
        name: name of the vertex, which is the key in the `parallelism` argument of the script.
        parallelism: declared bounds, which are the default of the resource requirements.
        max_parallelism: upper limit of the parallelism; for a stateful vertex also the number of state partitions in the
            checkpoint. None for the default (`effective_max_parallelism`).
        stateful: whether the vertex has state (in Spark: an aggregation, a join or a deduplication).
        slot_sharing_group: name of the group whose vertices share slots. A slot contains at most one subtask of each vertex.
            In Spark, a group is a whole query.
        inputs: names of the vertices whose output this vertex reads, which must be declared before this vertex.
        co_location: name of the co-location group, None without one. Subtasks with the same index of vertices in the same
            co-location group are placed in the same slot.
        loading_weight: weight of a subtask for load balancing; 1 is the weight of an ordinary subtask (FLIP-370: LoadingWeight).
    """

    name: str
    parallelism: ParallelismRange
    max_parallelism: int | None = None
    stateful: bool = True
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    inputs: tuple[str, ...] = ()
    co_location: str | None = None
    loading_weight: float = 1.0

    @property
    def effective_max_parallelism(self) -> int:
        """The declared maximum; by default the upper bound of a stateful vertex, and Flink's default for other vertices.

        The default of a stateful vertex deviates from Flink. In Spark, each state partition is a task of each batch, so
        Flink's minimum of 128 partitions is expensive on a few slots (ADR 0008).
        """
        if self.max_parallelism is not None:
            return self.max_parallelism
        return self.parallelism.upper if self.stateful else default_max_parallelism(self.parallelism.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """Vertices of one job, in topological order.

    Attributes:
        job: id of the job.
        vertices: vertices with unique names, at least one.
        job_type: type of the job.
    """

    job: str
    vertices: tuple[JobVertex, ...]
    job_type: JobType = JobType.STREAMING

    @classmethod
    def single(cls, job: str, parallelism: ParallelismRange, max_parallelism: int | None = None) -> JobGraph:
        """Return the graph of a job that declares no graph: one stateful vertex."""
        vertex = JobVertex(name=DEFAULT_VERTEX, parallelism=parallelism, max_parallelism=max_parallelism)
        return cls(job=job, vertices=(vertex,))

    def validate(self) -> None:
        """Check the graph as a whole.

        Raises:
            JobGraphError: the graph is invalid; the error contains all violations.
        """
        violations = list(_violations(self.vertices))
        if violations:
            raise JobGraphError(f"job {self.job!r}", violations)

    @property
    def requirements(self) -> Requirements:
        """The declared bounds of every vertex."""
        return {vertex.name: vertex.parallelism for vertex in self.vertices}

    @property
    def max_parallelism(self) -> Parallelism:
        """Maximum parallelism of every vertex."""
        return {vertex.name: vertex.effective_max_parallelism for vertex in self.vertices}

    @property
    def groups(self) -> Mapping[str, tuple[JobVertex, ...]]:
        """Slot sharing groups by name, in the order of their first vertex."""
        members: dict[str, list[JobVertex]] = {}
        for vertex in self.vertices:
            members.setdefault(vertex.slot_sharing_group, []).append(vertex)
        return {name: tuple(vertices) for name, vertices in members.items()}

    @property
    def state_partitions(self) -> Mapping[str, int]:
        """State partitions of each slot sharing group: the largest maximum of its stateful vertices, 1 without such a vertex."""
        return {
            name: max((v.effective_max_parallelism for v in vertices if v.stateful), default=1)
            for name, vertices in self.groups.items()
        }

    @property
    def stateless_partitions(self) -> Mapping[str, int]:
        """Partitions of the shuffles of each slot sharing group without a stateful vertex: the largest maximum or upper bound."""
        return {
            name: max(v.max_parallelism or v.parallelism.upper for v in vertices)
            for name, vertices in self.groups.items()
            if not any(v.stateful for v in vertices)
        }


def default_max_parallelism(parallelism: int) -> int:
    """Return Flink's default (KeyGroupRangeAssignment): 1.5 times the parallelism, rounded up to a power of two in [128, 32768]."""
    minimum = parallelism + parallelism // 2
    power = 1 << max(minimum - 1, 0).bit_length()
    return min(max(power, MIN_DEFAULT_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def _violations(vertices: tuple[JobVertex, ...]) -> Iterator[str]:
    if not vertices:
        yield "has no vertices"
    before: dict[str, JobVertex] = {}
    for vertex in vertices:
        if vertex.name in before:
            yield f"vertex {vertex.name!r} is declared twice"
        yield from _bounds_violations(vertex)
        yield from _input_violations(vertex, before, {v.name for v in vertices})
        before[vertex.name] = vertex
    yield from _co_location_violations(vertices)


def _bounds_violations(vertex: JobVertex) -> Iterator[str]:
    lower, upper = vertex.parallelism.lower, vertex.parallelism.upper
    maximum = vertex.effective_max_parallelism
    if not vertex.name:
        yield "a vertex has no name"
    if lower < 1 or upper < 1:
        yield f"bounds [{lower}, {upper}] of vertex {vertex.name!r} must be greater than zero"
    elif lower > upper:
        yield f"lower bound {lower} of vertex {vertex.name!r} is higher than its upper bound {upper}"
    elif maximum < upper:
        remedy = f": set max_parallelism={upper} or more" if upper <= UPPER_BOUND_MAX_PARALLELISM else ""
        yield f"upper bound {upper} of vertex {vertex.name!r} exceeds its maximum parallelism {maximum}{remedy}"
    elif maximum > UPPER_BOUND_MAX_PARALLELISM:
        yield (
            f"maximum parallelism {maximum} of vertex {vertex.name!r} exceeds {UPPER_BOUND_MAX_PARALLELISM},"
            " the most that any vertex can have"
        )
    if not 0 < vertex.loading_weight < math.inf:
        yield f"loading weight {vertex.loading_weight} of vertex {vertex.name!r} must be a number greater than zero"


def _input_violations(vertex: JobVertex, before: Mapping[str, JobVertex], all_names: set[str]) -> Iterator[str]:
    for name in vertex.inputs:
        source = before.get(name)
        if name not in all_names:
            yield f"vertex {vertex.name!r} reads vertex {name!r}, which is not declared"
        elif source is None:
            yield f"vertex {vertex.name!r} reads vertex {name!r}, which must be declared before it"
        elif source.slot_sharing_group != vertex.slot_sharing_group:
            yield (
                f"vertices {name!r} and {vertex.name!r} belong to one query, so to one slot sharing group, not to"
                f" {source.slot_sharing_group!r} and {vertex.slot_sharing_group!r}"
            )


def _co_location_violations(vertices: Iterable[JobVertex]) -> Iterator[str]:
    groups: dict[str, dict[str, None]] = {}
    for vertex in vertices:
        if vertex.co_location is not None:
            groups.setdefault(vertex.co_location, {})[vertex.slot_sharing_group] = None
    for mark, names in groups.items():
        if len(names) > 1:
            yield f"co-location {mark!r} spans the slot sharing groups {', '.join(map(repr, names))}: it must be in one"
