"""Raises the lower bounds of a job to the gangs of its queries in Real-Time Mode.

Theory: Spark starts a batch in Real-Time Mode only if the tasks of all stages have a slot at the same time. A query on fewer slots
fails, so that its gang is a lower bound for every source of requirements. The driver computes the gang before the first start of the
query. The journal keeps the gang, so that later starts wait for its slots before a driver starts. A gang is above the input limit: the
tasks that read the sources are only a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.query_metrics import vertices_of
from airflow_adaptive._core.requirements.sources import ResolvedRequirements
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange


class Gangs:
    """The gangs of one job, by query. The gangs remain while no driver reports."""

    def __init__(self) -> None:
        self._gangs: dict[str, int] = {}

    def observe(self, status: DriverStatus | None) -> None:
        """Update the gangs from the status of the driver of the current epoch, None without a status.

        A driver that has not built its queries yet knows neither their gangs nor the vertices that they read.
        """
        if status is not None and (status.gangs or status.vertices_read is not None):
            self._gangs = dict(status.gangs)

    def apply(self, resolved: ResolvedRequirements, graph: JobGraph) -> ResolvedRequirements:
        """Return the requirements with lower bounds that are not below the gangs.

        Bounds above the maximum parallelism are impossible; the driver rejects such a gang with an error that names the remedy.
        """
        bounds = dict(resolved.requirements)
        for vertex, slots in self._slots_by_vertex(graph).items():
            least = min(slots, graph.max_parallelism[vertex])
            bounds[vertex] = ParallelismRange(max(bounds[vertex].lower, least), max(bounds[vertex].upper, least))
        if bounds == resolved.requirements:
            return resolved
        return replace(resolved, requirements=bounds, gang=_text(self._gangs))

    def to_snapshot(self) -> dict[str, int]:
        """Return the gangs for the next loop."""
        return dict(self._gangs)

    def restore(self, snapshot: Any) -> None:
        """Continue with the gangs of an earlier loop; ignore anything else."""
        if isinstance(snapshot, Mapping):
            self._gangs = {str(name): slots for name, slots in snapshot.items() if type(slots) is int}

    def _slots_by_vertex(self, graph: JobGraph) -> dict[str, int]:
        """Return the slots of each vertex that carries the gang of its slot sharing group: the vertex that can have the most slots."""
        slots: dict[str, int] = {}
        for query, gang in self._gangs.items():
            vertices = vertices_of(graph, query, len(self._gangs))
            if vertices:
                vertex = _widest(graph, vertices)
                slots[vertex] = slots.get(vertex, 0) + gang
        return slots


def _widest(graph: JobGraph, vertices: Iterable[str]) -> str:
    return max(vertices, key=lambda name: graph.max_parallelism[name])


def _text(gangs: Mapping[str, int]) -> str:
    needs = ", ".join(f"query {name} needs {slots} slots" for name, slots in gangs.items())
    return f"Real-Time Mode runs all stages at the same time: {needs}"
