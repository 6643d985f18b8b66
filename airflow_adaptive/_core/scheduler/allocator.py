"""Slot allocation: from slots to the parallelism of each vertex, to the placement of each subtask, and to the worker of each slot.

*Parallelism*, after Flink's SlotSharingSlotAllocator: a slot sharing group needs as many slots as the largest parallelism of its vertices. Each group
receives its minimum (the largest lower bound of its vertices). The remaining slots are divided evenly, in the order of the ranges of the groups, smallest
first, so that other groups receive the slots that a group cannot use. The last group receives the remainder. Groups with equal ranges are ordered by
name (Flink: by identity hash).

*Task placement* (FLIP-370), after Flink's slot sharing strategies: a slot contains at most one subtask of each vertex. Placement by index puts subtask i of
every vertex into slot i, so the first slot contains the most subtasks. Balanced placement also puts the subtasks of a vertex that needs all slots by
index. Each other vertex begins at the slot after the last slot of the previous vertex, so the slots differ by at most one subtask. Subtasks with the same
index and co-location group share a slot: the first vertex of the co-location group uses the slots with the fewest subtasks, and the other vertices use
the same slots, which may reduce the balance. As in Flink, placement counts subtasks and ignores their weights; slot matching uses the weights.

*Slot matching* (FLIP-370), after Flink's slot matching resolvers: all slots of a plan are matched with offered slots together, because a part of a plan
cannot run. The mode NONE takes first the slots that the job holds, then free slots in the order of the offers; from surplus slots, it keeps those of
whole workers, so that the other workers can be released. The mode SLOTS assigns each slot to the least used worker. The mode TASKS assigns the heaviest
remaining slot to the worker with the smallest load. Among equal workers, the worker with most held slots comes first, then the worker with most free
slots, then the lower id. Flink uses the order of a hash, and may therefore assign a heavy slot to a worker with one free slot.

Like Flink's SlotAssigner, `assign` combines placement and matching. It needs about n log n steps for n slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heappop, heapreplace, nsmallest

from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
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


class LoadBalanceMode(StrEnum):
    """What is balanced (Flink: `taskmanager.load-balance.mode`)."""

    NONE = "none"
    """Nothing: subtask i of every vertex is in slot i, and slots are taken in the order of the offers."""
    SLOTS = "slots"
    """The number of slots of each worker."""
    TASKS = "tasks"
    """The number of subtasks of each slot, and the load of each worker."""


def choose_slots(offers: Iterable[SlotOffer], wanted: int, mode: LoadBalanceMode) -> tuple[SlotOffer, ...] | None:
    """Return the slots from which `spread` chooses the `wanted` slots of a plan, None if the offers have fewer slots.

    The mode NONE returns exactly `wanted` slots: first held slots, or held slots of whole workers if the job holds more. The
    other modes return all slots.
    """
    workers = _merged(offers)
    if sum(worker.total for worker in workers) < wanted:
        return None
    if mode is not LoadBalanceMode.NONE:
        return workers
    held = sum(worker.held for worker in workers)
    return _keep(workers, wanted) if wanted < held else _add(workers, wanted - held)


def spread(
    loads: Sequence[float],
    workers: Sequence[SlotOffer],
    mode: LoadBalanceMode,
    initial_load: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """Return the worker of each slot of a plan.

    Args:
        loads: load of each slot.
        workers: slots of the workers, at least as many as `loads` (`choose_slots`).
        mode: what is balanced.
        initial_load: load that a worker has already, used by the mode TASKS.
    """
    if mode is LoadBalanceMode.NONE:
        return _in_order(workers)[: len(loads)]
    if mode is LoadBalanceMode.SLOTS:
        return _assign_slots(range(len(loads)), workers, {}, lambda _, __, worker, left: 1 - left / worker.total)
    heaviest_first = sorted(range(len(loads)), key=loads.__getitem__, reverse=True)
    return _assign_slots(heaviest_first, workers, initial_load or {}, lambda load, slot, _, __: load + loads[slot])


# ---- choosing -------------------------------------------------------------------------------------------------------


def _merged(offers: Iterable[SlotOffer]) -> tuple[SlotOffer, ...]:
    merged: dict[str, SlotOffer] = {}
    for offer in offers:
        known = merged.get(offer.worker)
        held, free = (0, 0) if known is None else (known.held, known.free)
        merged[offer.worker] = replace(offer, held=held + offer.held, free=free + offer.free)
    return tuple(merged.values())


def _keep(workers: Iterable[SlotOffer], wanted: int) -> tuple[SlotOffer, ...]:
    """Return held slots on the fewest workers (Flink: `prefer-minimal-taskmanagers`), those of workers that end soon last."""
    kept: list[SlotOffer] = []
    for worker in sorted(workers, key=lambda worker: (not worker.accepts, -worker.held, worker.worker)):
        if wanted <= 0:
            break
        kept.append(SlotOffer(worker=worker.worker, held=min(worker.held, wanted)))
        wanted -= worker.held
    return tuple(kept)


def _add(workers: Iterable[SlotOffer], missing: int) -> tuple[SlotOffer, ...]:
    """Return all held slots, and the missing slots from the free slots in the order of the offers."""
    chosen: list[SlotOffer] = []
    for worker in workers:
        added = min(worker.free, missing)
        missing -= added
        chosen.append(SlotOffer(worker=worker.worker, held=worker.held, free=added))
    return tuple(worker for worker in chosen if worker.total)


# ---- spreading ------------------------------------------------------------------------------------------------------


def _in_order(workers: Sequence[SlotOffer]) -> tuple[str, ...]:
    held = (worker.worker for worker in workers for _ in range(worker.held))
    free = (worker.worker for worker in workers for _ in range(worker.free))
    return (*held, *free)


_Pressure = Callable[[float, int, SlotOffer, int], float]
"""Returns the pressure on a worker after it took a slot, from the previous pressure, the slot, the worker and its remaining slots."""


def _assign_slots(
    slots: Sequence[int], workers: Iterable[SlotOffer], initial: Mapping[str, float], pressure_after: _Pressure
) -> tuple[str, ...]:
    """Assign each slot, in this order, to the worker with the lowest pressure."""
    ranked = sorted((worker for worker in workers if worker.total), key=lambda worker: worker.worker)
    heap = [(initial.get(w.worker, 0.0), -w.held, -w.free, rank) for rank, w in enumerate(ranked)]
    heapify(heap)
    assigned = [""] * len(slots)
    for slot in slots:
        pressure, held, free, rank = heap[0]
        assigned[slot] = ranked[rank].worker
        held, free = (held + 1, free) if held else (0, free + 1)
        if left := -held - free:
            heapreplace(heap, (pressure_after(pressure, slot, ranked[rank], left), held, free, rank))
        else:
            heappop(heap)
    return tuple(assigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Assignment of the slots of a plan to workers.

    The slots have one order: first the slots of the first group, then the slots of the next group.

    Attributes:
        groups: slots of each group with their subtasks.
        workers: worker of each slot.
        loads: sum of the loading weights in each slot.
    """

    groups: tuple[GroupSlots, ...]
    workers: tuple[str, ...]
    loads: tuple[float, ...]

    @property
    def slots_per_worker(self) -> dict[str, int]:
        """Number of used slots on each worker. Like the other properties, it contains only workers with used slots."""
        return dict(Counter(self.workers))

    @property
    def load_per_worker(self) -> dict[str, float]:
        """Sum of the loads of the slots on each worker."""
        loads = dict.fromkeys(self.workers, 0.0)
        for worker, load in zip(self.workers, self.loads, strict=True):
            loads[worker] += load
        return loads

    @property
    def imbalance(self) -> float:
        """Largest load of a worker as a multiple of the average load; 1 if the loads are equal."""
        loads = self.load_per_worker.values()
        return max(loads) * len(loads) / sum(loads)

    def contents(self) -> dict[str, list[list[Subtask]]]:
        """Return the subtasks of each slot of each worker. The result has an object for each subtask, so use it for small jobs."""
        contents: dict[str, list[list[Subtask]]] = {}
        slots = (subtasks for group in self.groups for subtasks in group.contents())
        for worker, subtasks in zip(self.workers, slots, strict=True):
            contents.setdefault(worker, []).append(subtasks)
        return contents


def assign(
    job: JobGraph,
    parallelism: Parallelism,
    offers: Iterable[SlotOffer],
    mode: LoadBalanceMode,
) -> Assignment | None:
    """Return the assignment of a plan, None if the offered slots do not suffice.

    Args:
        job: valid graph.
        parallelism: parallelism of every vertex, at least 1.
        offers: slots that the job holds or may take; the mode NONE takes free slots in this order.
        mode: what is balanced; TASKS balances the loading weights of the vertices.
    """
    place = place_balanced if mode is LoadBalanceMode.TASKS else place_by_index
    groups = place(job, parallelism)
    weights = {vertex.name: vertex.loading_weight for vertex in job.vertices}
    loads = tuple(load for group in groups for load in group.loads(weights))
    workers = choose_slots(offers, len(loads), mode)
    if workers is None:
        return None
    return Assignment(groups=groups, workers=spread(loads, workers, mode), loads=loads)
