"""Slot allocation after Flink's SlotSharingSlotAllocator.

Theory: a slot sharing group needs as many slots as the largest parallelism of its vertices. Each group receives its minimum (the
largest lower bound of its vertices). The remaining slots are divided evenly, in the order of the ranges of the groups,
smallest first, so that other groups receive the slots that a group cannot use. The last group receives the remainder. Groups
with equal ranges are ordered by name (Flink: by identity hash).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import Parallelism, Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupBounds:
    name: str
    minimum: int
    maximum: int

    @property
    def range(self) -> int:
        return self.maximum - self.minimum


def required_slots(job: JobGraph, requirements: Requirements) -> int:
    """Return the desired number of slots: the sum of the largest upper bound of each group."""
    return sum(group.maximum for group in _bounds(job, requirements))


def minimum_slots(job: JobGraph, requirements: Requirements) -> int:
    """Return the minimum number of slots: the sum of the largest lower bound of each group (FLINK-33960)."""
    return sum(group.minimum for group in _bounds(job, requirements))


def used_slots(job: JobGraph, parallelism: Parallelism) -> int:
    """Return the number of slots that a parallelism uses."""
    return sum(max(parallelism[v.name] for v in vertices) for vertices in job.groups.values())


def determine_parallelism(job: JobGraph, requirements: Requirements, slots: int) -> Parallelism | None:
    """Return the parallelism on this number of slots, None if it is less than the minimum."""
    groups = sorted(_bounds(job, requirements), key=lambda group: (group.range, group.name))
    missing = sum(group.minimum for group in groups)
    if slots < missing:
        return None
    granted: dict[str, int] = {}
    for position, group in enumerate(groups):
        fair_share = (slots - missing) // (len(groups) - position)
        granted[group.name] = group.minimum + min(fair_share, group.range)
        slots -= granted[group.name]
        missing -= group.minimum
    return {v.name: min(requirements[v.name].upper, granted[v.slot_sharing_group]) for v in job.vertices}


def _bounds(job: JobGraph, requirements: Requirements) -> list[_GroupBounds]:
    return [_group_bounds(name, vertices, requirements) for name, vertices in job.groups.items()]


def _group_bounds(name: str, vertices: tuple[JobVertex, ...], requirements: Requirements) -> _GroupBounds:
    bounds = [requirements[vertex.name] for vertex in vertices]
    return _GroupBounds(name=name, minimum=max(b.lower for b in bounds), maximum=max(b.upper for b in bounds))
