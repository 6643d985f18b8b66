"""Bounds the vertices that read sources by the number of tasks that the sources can feed.

Theory: a task reads at least one partition, so that more subtasks than partitions idle. The limit changes only the upper bound of the
resource requirements: new partitions are new requirements, and the scheduler rescales after its cooldown, as for new slots. Where a
shuffle follows, the other tasks of the query can use more slots, so that the limit bounds only a vertex of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_adaptive._core.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive._core.protocol.sources import Shuffle
from airflow_adaptive._core.requirements.query_metrics import vertices_of
from airflow_adaptive._core.requirements.sources import RequirementsOrigin, ResolvedRequirements
from airflow_adaptive._core.scheduler.config.alignment import SourceAlignment
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    """A value of `minPartitions`, which is constant if the script has set the same value under another plan.

    Attributes:
        value: the value.
        is_confirmed: whether the value stayed when the parallelism changed.
    """

    value: int
    is_confirmed: bool = False


class InputLimits:
    """The input limits of one job, by vertex. The limits remain while no driver reports."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._min_partitions: dict[str, _Constant] = {}

    def observe(self, graph: JobGraph, status: DriverStatus | None) -> None:
        """Update the limits from the status of the driver of the current epoch, None without a status.

        Queries that share their vertices run at the same time, so that their limits add up. A query without a limit can use all slots.
        """
        if status is None:
            return
        queries: dict[tuple[str, ...], list[QueryReport]] = {}
        for query in status.queries:
            queries.setdefault(vertices_of(graph, query.name, len(status.queries)), []).append(query)
        for vertices, sharing in queries.items():
            limits = [_limit(query) for query in sharing]
            if None not in limits:
                self._limits = {name: limit for name, limit in self._limits.items() if name not in vertices}
                readers = {self._reader(graph, vertices, query, status) for query in sharing}
                if len(readers) == 1 and None not in readers:
                    self._limits[str(readers.pop())] = sum(filter(None, limits))

    def apply(
        self, resolved: ResolvedRequirements, ceiling: Requirements, alignment: SourceAlignment
    ) -> ResolvedRequirements:
        """Return the requirements with aligned upper bounds of the vertices that read sources.

        Args:
            resolved: requirements without the limits.
            ceiling: bounds that an alignment of a policy's advice may use.
            alignment: mode of the alignment.
        """
        is_advice = resolved.source.origin is RequirementsOrigin.POLICY
        bounds = dict(resolved.requirements)
        known = {vertex: limit for vertex, limit in self._limits.items() if vertex in bounds and limit > 0}
        for vertex, limit in known.items():
            largest = max(ceiling[vertex].upper, bounds[vertex].upper) if is_advice else bounds[vertex].upper
            bounds[vertex] = _aligned(bounds[vertex], limit, largest, alignment)
        changed = {vertex for vertex in known if bounds[vertex] != resolved.requirements[vertex]}
        texts = [_text(vertex, known[vertex]) for vertex in known if vertex in changed]
        return replace(resolved, requirements=bounds, input_limit="; ".join(texts)) if texts else resolved

    def to_snapshot(self) -> dict[str, int]:
        """Return the limits for the next loop."""
        return dict(self._limits)

    def restore(self, snapshot: Any) -> None:
        """Continue with the limits of an earlier loop; ignore anything else."""
        if isinstance(snapshot, Mapping):
            self._limits = {str(name): limit for name, limit in snapshot.items() if type(limit) is int}

    def _reader(
        self, graph: JobGraph, vertices: tuple[str, ...], query: QueryReport, status: DriverStatus
    ) -> str | None:
        """Return the vertex that the limit of a query bounds, None if the limit bounds no vertex."""
        return None if self._follows_plan(query, status) else _reading_vertex(graph, vertices, query)

    def _follows_plan(self, query: QueryReport, status: DriverStatus) -> bool:
        """Return whether the script takes `minPartitions` of the query from the plan, so that the value is no limit.

        A value that equals the parallelism of a vertex that the script reads may be a coincidence. A value that stays when the parallelism
        changes is none.
        """
        values = [it.min_partitions for it in query.sources if it.min_partitions is not None]
        planned = {status.parallelism.get(name) for name in status.vertices_read or ()}
        if not values or not planned:
            return False
        known = self._min_partitions.get(query.name)
        if known is None or known.value != values[0]:
            known = _Constant(value=values[0])
        self._min_partitions[query.name] = known = replace(
            known, is_confirmed=known.is_confirmed or known.value not in planned
        )
        return not known.is_confirmed


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


def _reading_vertex(graph: JobGraph, vertices: tuple[str, ...], query: QueryReport) -> str | None:
    """Return the vertex whose subtasks read the sources and do no other work, None if there is none or if it is ambiguous."""
    if query.shuffle in (Shuffle.REPARTITION, Shuffle.UNKNOWN):
        return None
    of_query = [vertex for vertex in graph.vertices if vertex.name in vertices]
    readers = [vertex.name for vertex in of_query if not vertex.inputs]
    has_others = any(vertex.inputs for vertex in of_query)
    is_separate = query.shuffle == Shuffle.NONE or has_others
    return readers[0] if len(readers) == 1 and is_separate else None


def _aligned(wanted: ParallelismRange, limit: int, largest: int, mode: SourceAlignment) -> ParallelismRange:
    upper = align(wanted.upper, limit, (min(wanted.lower, limit), largest), mode)
    return ParallelismRange(min(wanted.lower, upper), upper)


def _text(vertex: str, limit: int) -> str:
    plural = "" if limit == 1 else "s"
    return f"the sources of vertex {vertex} feed {limit} task{plural}: more than {limit} slot{plural} would idle"
