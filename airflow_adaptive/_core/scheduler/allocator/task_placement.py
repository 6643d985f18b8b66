"""Task placement: the slot of each subtask, the first part of FLIP-370, after Flink's slot sharing strategies.

Theory: a slot sharing group has as many slots as the largest parallelism of its vertices, and a slot contains at most one subtask
of each vertex. Placement by index puts subtask i of every vertex into slot i, so the first slot contains the most subtasks.
Balanced placement also puts the subtasks of a vertex that needs all slots by index. Each other vertex begins at the slot
after the last slot of the previous vertex, so the slots differ by at most one subtask. Subtasks with the same index and
co-location group share a slot: the first vertex of the co-location group uses the slots with the fewest subtasks, and the other
vertices use the same slots, which may reduce the balance.

As in Flink, placement counts subtasks and ignores their weights; `load_balancing` uses the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest

from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import Parallelism

Subtask = tuple[str, int]
"""Name of the vertex, and index of the subtask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSlots:
    """The slots of one slot sharing group, with the placement of its subtasks.

    The placement is a sequence for each vertex, because a job may have tens of thousands of subtasks.

    Attributes:
        group: name of the group.
        size: number of slots; the first slot is 0.
        slots_of: slot of each subtask in the order of the indices, by vertex.
    """

    group: str
    size: int
    slots_of: Mapping[str, Sequence[int]]

    def loads(self, weights: Mapping[str, float]) -> list[float]:
        """Return the sum of the weights of the subtasks in each slot, from the weight of a subtask of each vertex."""
        loads = [0.0] * self.size
        for vertex, slots in self.slots_of.items():
            weight = weights[vertex]
            for slot in slots:
                loads[slot] += weight
        return loads

    def tasks(self) -> list[int]:
        """Return the number of subtasks in each slot."""
        tasks = [0] * self.size
        for slots in self.slots_of.values():
            for slot in slots:
                tasks[slot] += 1
        return tasks

    def contents(self) -> list[list[Subtask]]:
        """Return the subtasks in each slot, in the order of the vertices."""
        contents: list[list[Subtask]] = [[] for _ in range(self.size)]
        for vertex, slots in self.slots_of.items():
            for index, slot in enumerate(slots):
                contents[slot].append((vertex, index))
        return contents


def place_by_index(job: JobGraph, parallelism: Parallelism) -> tuple[GroupSlots, ...]:
    """Place subtask i of every vertex into slot i of its group (Flink: DefaultSlotSharingStrategy)."""
    return tuple(
        GroupSlots(
            group=name,
            size=max(parallelism[v.name] for v in vertices),
            slots_of={v.name: range(parallelism[v.name]) for v in vertices},
        )
        for name, vertices in job.groups.items()
    )


def place_balanced(job: JobGraph, parallelism: Parallelism) -> tuple[GroupSlots, ...]:
    """Place equally many subtasks into each slot of a group (Flink: TaskBalancedExecutionSlotSharingGroupBuilder).

    The vertices are placed in their declared order; Flink's adaptive scheduler uses the order of a hash.
    """
    return tuple(_balanced(name, vertices, parallelism) for name, vertices in job.groups.items())


def _balanced(group: str, vertices: tuple[JobVertex, ...], parallelism: Parallelism) -> GroupSlots:
    balance = _Balance(max(parallelism[v.name] for v in vertices))
    slots_of = {v.name: balance.place(v, parallelism[v.name]) for v in vertices}
    return GroupSlots(group=group, size=balance.size, slots_of=slots_of)


@dataclass(slots=True)
class _Balance:
    """Slots of a group during the placement of its vertices.

    Attributes:
        size: number of slots.
        tasks: number of subtasks in each slot.
        cursor: first slot of the next vertex that does not need all slots.
        bound: slot of each index, by co-location group.
    """

    size: int
    tasks: list[int] = field(init=False)
    cursor: int = 0
    bound: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = [0] * self.size

    def place(self, vertex: JobVertex, count: int) -> Sequence[int]:
        """Place `count` subtasks of the vertex, and return their slots."""
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
        """Return `count` slots from the cursor on, which continue at the first slot; all slots begin at the first slot."""
        first = self.cursor if count < self.size else 0
        end = first + count
        return range(first, end) if end <= self.size else (*range(first, self.size), *range(end - self.size))

    def _bind(self, slots: list[int], count: int) -> Sequence[int]:
        """Return the slots of a co-location group by index; missing slots are the other slots with the fewest subtasks."""
        if count > len(slots):
            others = set(range(self.size)).difference(slots)
            slots += nsmallest(count - len(slots), others, key=lambda slot: (self.tasks[slot], slot))
        return tuple(slots[:count])

    def _after(self, vertex: JobVertex, count: int) -> int:
        return (self.cursor + count) % self.size if vertex.co_location is None else self.tasks.index(min(self.tasks))
