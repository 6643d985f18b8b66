"""Slot allocation after Flink's SlotSharingSlotAllocator.

Theory: a slot sharing group needs as many slots as the largest parallelism of its vertices. Each group receives its minimum (the
largest lower bound of its vertices). The remaining slots are divided evenly, in the order of the ranges of the groups,
smallest first, so that other groups receive the slots that a group cannot use. The last group receives the remainder. Groups
with equal ranges are ordered by name (Flink: by identity hash).
"""

from __future__ import annotations

from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange, Requirements


def required_slots(job: JobGraph, requirements: Requirements) -> int:
    """Return the desired number of slots: the sum of the largest upper bound of each group."""
    return sum(max(requirements[v.name].upper for v in vertices) for vertices in job.groups.values())


def minimum_slots(job: JobGraph, requirements: Requirements) -> int:
    """Return the minimum number of slots: the sum of the largest lower bound of each group (FLINK-33960)."""
    return sum(max(requirements[v.name].lower for v in vertices) for vertices in job.groups.values())


def used_slots(job: JobGraph, parallelism: Parallelism) -> int:
    """Return the number of slots that a parallelism uses."""
    return sum(max(parallelism[v.name] for v in vertices) for vertices in job.groups.values())


def determine_parallelism(job: JobGraph, requirements: Requirements, slots: int) -> Parallelism | None:
    """Return the parallelism on this number of slots, None if it is less than the minimum."""
    groups = sorted(_bounds(job, requirements).items(), key=lambda group: (group[1].upper - group[1].lower, group[0]))
    missing = sum(bounds.lower for _, bounds in groups)
    if slots < missing:
        return None
    granted: dict[str, int] = {}
    for position, (name, bounds) in enumerate(groups):
        fair_share = (slots - missing) // (len(groups) - position)
        granted[name] = min(bounds.lower + fair_share, bounds.upper)
        slots -= granted[name]
        missing -= bounds.lower
    return {v.name: min(requirements[v.name].upper, granted[v.slot_sharing_group]) for v in job.vertices}


def _bounds(job: JobGraph, requirements: Requirements) -> dict[str, ParallelismRange]:
    """Return the minimum and the maximum number of slots of each group."""
    bounds = {name: [requirements[vertex.name] for vertex in vertices] for name, vertices in job.groups.items()}
    return {name: ParallelismRange(max(b.lower for b in of), max(b.upper for b in of)) for name, of in bounds.items()}
