"""Job graphs of the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_adaptive._core.scheduler.job_graph import DEFAULT_SLOT_SHARING_GROUP, JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements

JOB = "vector"


def graph(vertices: list[Mapping[str, Any]]) -> JobGraph:
    """Return the graph of the vertices of a vector."""
    return JobGraph(job=JOB, vertices=tuple(_vertex(described) for described in vertices))


def requirements(described: Mapping[str, Mapping[str, int]], lower: str, upper: str) -> Requirements:
    """Return the requirements of a vector.

    Args:
        described: bounds of each vertex, by name of the vertex.
        lower: key of the lower bound.
        upper: key of the upper bound.
    """
    return {name: ParallelismRange(bounds[lower], bounds[upper]) for name, bounds in described.items()}


def _vertex(described: Mapping[str, Any]) -> JobVertex:
    return JobVertex(
        name=described["name"],
        parallelism=ParallelismRange(described["lower"], described["upper"]),
        max_parallelism=described.get("max_parallelism"),
        slot_sharing_group=described.get("group", DEFAULT_SLOT_SHARING_GROUP),
        co_location=described.get("colocation"),
    )
