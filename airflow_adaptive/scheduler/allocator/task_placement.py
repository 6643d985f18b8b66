"""Which subtasks lie in which slot: the first half of FLIP-370, after Flink's slot sharing strategies.

Theory: a slot sharing group has as many slots as its widest vertex has subtasks, and a slot holds at most one subtask of
each vertex. By index, subtask i of every vertex lies in slot i: the first slot holds most, the last one least. Balanced,
a vertex that fills the group lies by index as well; the others go round, each from the slot after the last one of the
vertex before it, so that slots differ by one subtask at most. Subtasks of one co-location mark and index share a slot:
the first vertex of the mark chooses the emptiest ones, the others follow, which may cost some balance.

Subtasks are counted here, not weighed, as Flink does; weights matter when slots go to workers (`load_balancing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import Parallelism

Subtask = tuple[str, int]
"""Vertex and index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlots:
    """The slots of one slot sharing group, and where in them every subtask lies.

    Kept per vertex, not per subtask: a job may have tens of thousands of subtasks.

    Attributes:
        group: name of the group.
        size: number of its slots, which are counted from 0.
        slots_of: per vertex, the slot of each subtask in the order of their indices.
    """

    group: str
    size: int
    slots_of: Mapping[str, Sequence[int]]

    def loads(self, weights: Mapping[str, float]) -> list[float]:
        """Weight of the subtasks in each slot, given what a subtask of each vertex weighs."""
        loads = [0.0] * self.size
        for vertex, slots in self.slots_of.items():
            weight = weights[vertex]
            for slot in slots:
                loads[slot] += weight
        return loads

    def tasks(self) -> list[int]:
        """Number of subtasks in each slot."""
        tasks = [0] * self.size
        for slots in self.slots_of.values():
            for slot in slots:
                tasks[slot] += 1
        return tasks

    def contents(self) -> list[list[Subtask]]:
        """The subtasks in each slot, in the order of the vertices."""
        contents: list[list[Subtask]] = [[] for _ in range(self.size)]
        for vertex, slots in self.slots_of.items():
            for index, slot in enumerate(slots):
                contents[slot].append((vertex, index))
        return contents


def place_by_index(job: JobGraph, parallelism: Parallelism) -> tuple[GroupSlots, ...]:
    """Subtask i of every vertex in slot i of its group (Flink: DefaultSlotSharingStrategy)."""
    return tuple(
        GroupSlots(
            group=name,
            size=max(parallelism[v.name] for v in vertices),
            slots_of={v.name: range(parallelism[v.name]) for v in vertices},
        )
        for name, vertices in job.groups.items()
    )


def place_balanced(job: JobGraph, parallelism: Parallelism) -> tuple[GroupSlots, ...]:
    """As many subtasks in each slot of a group as in any other (Flink: TaskBalancedExecutionSlotSharingGroupBuilder).

    Vertices are taken in their declared order; Flink's adaptive scheduler takes them in hash order.
    """
    return tuple(_balanced(name, vertices, parallelism) for name, vertices in job.groups.items())


def _balanced(group: str, vertices: tuple[JobVertex, ...], parallelism: Parallelism) -> GroupSlots:
    balance = _Balance(max(parallelism[v.name] for v in vertices))
    slots_of = {v.name: balance.place(v, parallelism[v.name]) for v in vertices}
    return GroupSlots(group=group, size=balance.size, slots_of=slots_of)


@dataclass(slots=True)
class _Balance:
    """A group's slots while its vertices are placed, one after another.

    Attributes:
        size: number of slots.
        tasks: subtasks in each slot.
        cursor: slot where the next vertex begins that does not fill the group.
        bound: per co-location mark, the slot of each index.
    """

    size: int
    tasks: list[int] = field(init=False)
    cursor: int = 0
    bound: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = [0] * self.size

    def place(self, vertex: JobVertex, count: int) -> Sequence[int]:
        """Place so many subtasks of the vertex."""
        if vertex.co_location is None:
            slots = self._next(count)
        else:
            slots = self._bind(self.bound.setdefault(vertex.co_location, []), count)
        for slot in slots:
            self.tasks[slot] += 1
        if count < self.size:
            self.cursor = self._after(vertex, count)
        return slots

    def _next(self, count: int) -> Sequence[int]:
        """Slots from the cursor on, then from the first one on; from the first one on if all are needed."""
        first = self.cursor if count < self.size else 0
        end = first + count
        return range(first, end) if end <= self.size else (*range(first, self.size), *range(end - self.size))

    def _bind(self, slots: list[int], count: int) -> Sequence[int]:
        """Slots of a mark, by index; those that it lacks are the emptiest others, the first of equal ones first."""
        if count > len(slots):
            others = set(range(self.size)).difference(slots)
            slots += nsmallest(count - len(slots), others, key=lambda slot: (self.tasks[slot], slot))
        return tuple(slots[:count])

    def _after(self, vertex: JobVertex, count: int) -> int:
        return (self.cursor + count) % self.size if vertex.co_location is None else self.tasks.index(min(self.tasks))
