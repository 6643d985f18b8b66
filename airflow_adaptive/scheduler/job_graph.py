"""The job as the scheduler sees it: vertices, their bounds, and the slot sharing groups that they belong to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_adaptive.scheduler.errors import JobGraphError
from airflow_adaptive.scheduler.requirements import Parallelism, ParallelismRange, Requirements

DEFAULT_VERTEX = "job"
"""Name of the only vertex of a job that declares no graph."""

DEFAULT_SLOT_SHARING_GROUP = "default"

MIN_DEFAULT_MAX_PARALLELISM = 128
UPPER_BOUND_MAX_PARALLELISM = 32768


class JobType(StrEnum):
    """How the job's input ends: never, or known beforehand."""

    STREAMING = "STREAMING"
    BATCH = "BATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVertex:
    """A named stage of the pipeline whose partition count the script takes from the plan.

    Attributes:
        name: key in the `parallelism` mapping that the script receives.
        parallelism: declared bounds, the default of the resource requirements.
        max_parallelism: most subtasks the vertex may ever have; for a stateful vertex the number of its state
            partitions, fixed by the checkpoint. None takes `default_max_parallelism`.
        stateful: whether the vertex keeps state (Spark: an aggregation, a join, a deduplication).
        slot_sharing_group: vertices of one group share slots: a slot holds at most one subtask of each. On Spark a group
            is a whole query.
        inputs: names of the vertices whose output this one reads; they are declared before it.
        co_location: subtasks of the same index of vertices with the same mark lie in the same slot, None for no mark.
        loading_weight: what a subtask weighs when load is balanced, in subtasks (FLIP-370's LoadingWeight).
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
        """The declared maximum, else the upper bound of a stateful vertex, else Flink's default.

        A stateful vertex deviates from Flink: on Spark every state partition is a task of every batch, so 128 of them
        on two slots would cost more than the freedom to grow is worth (ADR 0008).
        """
        if self.max_parallelism is not None:
            return self.max_parallelism
        return self.parallelism.upper if self.stateful else default_max_parallelism(self.parallelism.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGraph:
    """Vertices of one job, in topological order.

    Attributes:
        job: id of the job.
        vertices: at least one, with unique names.
        job_type: STREAMING unless declared.
    """

    job: str
    vertices: tuple[JobVertex, ...]
    job_type: JobType = JobType.STREAMING

    @classmethod
    def single(cls, job: str, parallelism: ParallelismRange, max_parallelism: int | None = None) -> JobGraph:
        """The graph of a job that declares none: one stateful vertex."""
        vertex = JobVertex(name=DEFAULT_VERTEX, parallelism=parallelism, max_parallelism=max_parallelism)
        return cls(job=job, vertices=(vertex,))

    def validate(self) -> None:
        """Check the graph as a whole.

        Raises:
            JobGraphError: listing everything that is wrong.
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
        """Partitions of the state of each slot sharing group: the largest maximum of its stateful vertices, 1 without any."""
        return {
            name: max((v.effective_max_parallelism for v in vertices if v.stateful), default=1)
            for name, vertices in self.groups.items()
        }


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default (KeyGroupRangeAssignment): 1.5 times the parallelism, up to a power of two, 128..32768."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(wanted - 1, 0).bit_length()
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
        yield f"upper bound {upper} of vertex {vertex.name!r} exceeds its maximum parallelism {maximum}"
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
