"""Job graphs as vectors describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import ParallelismRange, Requirements

JOB = "vector"


def graph(vertices: list[Mapping[str, Any]]) -> JobGraph:
    """The graph of a vector's vertices."""
    return JobGraph(job=JOB, vertices=tuple(_vertex(described) for described in vertices))


def graph_of(bounds: Mapping[str, tuple[int, int, int]]) -> JobGraph:
    """The graph of vertices with lower bound, upper bound and maximum parallelism."""
    return JobGraph(
        job=JOB,
        vertices=tuple(
            JobVertex(name=name, parallelism=ParallelismRange(lower, upper), max_parallelism=maximum)
            for name, (lower, upper, maximum) in bounds.items()
        ),
    )


def requirements(described: Mapping[str, Mapping[str, int]], lower: str, upper: str) -> Requirements:
    """Requirements with the vector's names for the bounds."""
    return {name: ParallelismRange(bounds[lower], bounds[upper]) for name, bounds in described.items()}


def _vertex(described: Mapping[str, Any]) -> JobVertex:
    return JobVertex(
        name=described["name"],
        parallelism=ParallelismRange(described["lower"], described["upper"]),
        max_parallelism=described.get("max_parallelism"),
        slot_sharing_group=described["group"],
        co_location=described.get("colocation"),
    )
