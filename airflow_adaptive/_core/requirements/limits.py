"""Limits that the drivers of a job report: how many slots the sources of a vertex can feed, and how many slots a query needs.

Theory: a task reads at least one partition, so that more subtasks than partitions idle. An input limit changes only the upper bound of the
resource requirements: new partitions are new requirements, and the scheduler rescales after its cooldown, as for new slots. Where a
shuffle follows, the other tasks of the query can use more slots, so that the limit bounds only a vertex of its own.

Spark starts a batch in Real-Time Mode only if the tasks of all stages have a slot at the same time. A query on fewer slots fails, so that its
gang is a lower bound for every source of requirements. The driver computes the gang before the first start of the query, and the next loop
remembers the gang, so that later starts wait for its slots before a driver starts. A gang is above the input limit: the tasks that read the
sources are only a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle
from airflow_adaptive._core.requirements.advice import vertices_of
from airflow_adaptive._core.scheduler.config.options import SourceAlignment
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class MinPartitions:
    """A value of `minPartitions`, which is constant if the script has set the same value under another plan.

    Attributes:
        value: the value.
        is_constant: whether the value stayed when the parallelism changed.
    """

    value: int
    is_constant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLimits:
    """Limits of one job. They remain while no driver reports.

    Attributes:
        inputs: largest number of tasks that the sources of a vertex can feed, by vertex.
        gangs: slots that a query needs at the same time, by query.
        min_partitions: values of `minPartitions`, by query. They describe the script that runs, so the next loop observes them again.
    """

    inputs: Mapping[str, int] = field(default_factory=dict)
    gangs: Mapping[str, int] = field(default_factory=dict)
    min_partitions: Mapping[str, MinPartitions] = field(default_factory=dict)

    @property
    def lasting(self) -> ReportedLimits:
        """What the next loop and the readers of the published state need."""
        return replace(self, min_partitions={})

    def observed(self, graph: JobGraph, status: DriverStatus | None) -> ReportedLimits:
        """Return the limits after a status of the driver of the current epoch, None without a status.

        Queries that share their vertices run at the same time, so that their limits add up. A query without a limit can use all slots. A
        driver that has not built its queries yet knows neither their gangs nor the vertices that they read.
        """
        if status is None:
            return self
        is_built = bool(status.gangs) or status.vertices_read is not None
        inputs, found = dict(self.inputs), dict(self.min_partitions)
        queries: dict[tuple[str, ...], list[QueryReport]] = {}
        for query in status.queries:
            queries.setdefault(vertices_of(graph, query.name, len(status.queries)), []).append(query)
        for vertices, sharing in queries.items():
            limits = [_limit(query) for query in sharing]
            if None in limits:
                continue
            inputs = {name: limit for name, limit in inputs.items() if name not in vertices}
            readers = set()
            for query in sharing:
                value = _min_partitions(query, status, found.get(query.name))
                found |= {} if value is None else {query.name: value}
                follows_plan = value is not None and not value.is_constant
                readers.add(None if follows_plan else _reading_vertex(graph, vertices, query))
            if len(readers) == 1 and None not in readers:
                inputs[str(readers.pop())] = sum(filter(None, limits))
        return ReportedLimits(inputs=inputs, gangs=dict(status.gangs) if is_built else self.gangs, min_partitions=found)

    def applied(
        self, bounds: Requirements, graph: JobGraph, ceiling: Requirements, alignment: SourceAlignment
    ) -> tuple[Requirements, str]:
        """Return the bounds within the limits, and why they differ, "" if they do not.

        Bounds above the maximum parallelism are impossible; the driver rejects such a gang with an error that names the remedy.

        Args:
            bounds: bounds of every vertex.
            graph: graph of the job.
            ceiling: bounds that an alignment may use.
            alignment: mode of the alignment.
        """
        limited, texts = dict(bounds), []
        for vertex, limit in self.inputs.items():
            if vertex in bounds and limit > 0:
                limited[vertex] = _aligned(bounds[vertex], limit, ceiling[vertex].upper, alignment)
                texts += [_input_text(vertex, limit)] if limited[vertex] != bounds[vertex] else []
        raised = dict(limited)
        for vertex, slots in self._gang_slots(graph).items():
            least = min(slots, graph.max_parallelism[vertex])
            raised[vertex] = ParallelismRange(max(limited[vertex].lower, least), max(limited[vertex].upper, least))
        texts += [_gang_text(self.gangs)] if raised != limited else []
        return raised, "; ".join(texts)

    def _gang_slots(self, graph: JobGraph) -> Mapping[str, int]:
        """Return the slots of each vertex that carries the gang of its slot sharing group: the vertex that can have the most slots."""
        slots: dict[str, int] = {}
        for query, gang in self.gangs.items():
            if vertices := vertices_of(graph, query, len(self.gangs)):
                widest = max(vertices, key=lambda name: graph.max_parallelism[name])
                slots[widest] = slots.get(widest, 0) + gang
        return slots


NO_LIMITS: Final = ReportedLimits()
"""Limits of a job whose drivers have reported none."""


def align(target: int, partitions: int, bounds: tuple[int, int], mode: SourceAlignment) -> int:
    """Return the aligned parallelism. In no mode does it exceed the number of partitions (unlike Flink before FLINK-40389).

    Args:
        target: wanted parallelism.
        partitions: number of partitions, at least 1.
        bounds: smallest and largest parallelism that the alignment may choose. A target outside these bounds is kept.
        mode: the mode.
    """
    target = min(target, partitions)
    lower, upper = bounds[0], min(bounds[1], partitions)
    larger = range(target, upper + 1)
    if mode is SourceAlignment.OFF:
        return target
    if mode is SourceAlignment.EVENLY_SPREAD:
        return next((it for it in (*larger, *range(target, lower - 1, -1)) if partitions % it == 0), target)
    fewer = (it for it in larger if partitions % it == 0 or partitions // it < partitions // target)
    return next(fewer, target)


def _limit(query: QueryReport) -> int | None:
    """Return the number of tasks that read the sources of a query at the same time, None if it is not known."""
    limits = [it.input_limit for it in query.sources if it.input_limit is not None]
    is_known = query.active and query.shuffle is not None and len(limits) == len(query.sources) > 0
    return sum(limits) if is_known else None


def _min_partitions(query: QueryReport, status: DriverStatus, known: MinPartitions | None) -> MinPartitions | None:
    """Return the value of `minPartitions` of a query after the `known` one, None without a value or if the script reads no parallelism.

    A value that equals the parallelism of a vertex that the script reads may be a coincidence. A value that stays when the parallelism
    changes is none.
    """
    values = [it.min_partitions for it in query.sources if it.min_partitions is not None]
    planned = {status.parallelism.get(name) for name in status.vertices_read or ()}
    if not values or not planned:
        return None
    is_constant = known is not None and known.value == values[0] and known.is_constant
    return MinPartitions(value=values[0], is_constant=is_constant or values[0] not in planned)


def _reading_vertex(graph: JobGraph, vertices: tuple[str, ...], query: QueryReport) -> str | None:
    """Return the vertex whose subtasks read the sources and do no other work, None if there is none or if it is ambiguous."""
    if query.shuffle in (Shuffle.REPARTITION, Shuffle.UNKNOWN):
        return None
    of_query = [vertex for vertex in graph.vertices if vertex.name in vertices]
    readers = [vertex.name for vertex in of_query if not vertex.inputs]
    has_others = any(vertex.inputs for vertex in of_query)
    is_separate = query.shuffle == Shuffle.NONE or has_others
    return readers[0] if len(readers) == 1 and is_separate else None


def _aligned(wanted: ParallelismRange, limit: int, ceiling: int, mode: SourceAlignment) -> ParallelismRange:
    upper = align(wanted.upper, limit, (min(wanted.lower, limit), max(ceiling, wanted.upper)), mode)
    return ParallelismRange(min(wanted.lower, upper), upper)


def _input_text(vertex: str, limit: int) -> str:
    plural = "" if limit == 1 else "s"
    return f"the sources of vertex {vertex} feed {limit} task{plural}: more than {limit} slot{plural} would idle"


def _gang_text(gangs: Mapping[str, int]) -> str:
    needs = ", ".join(f"query {name} needs {slots} slots" for name, slots in gangs.items())
    return f"Real-Time Mode runs all stages at the same time: {needs}"
