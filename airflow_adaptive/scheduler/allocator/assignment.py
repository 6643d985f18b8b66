"""The third operation of slot allocation: which subtasks lie in which slot, and which slot on which worker (S4, S13).

Flink's SlotAssigner composes a slot sharing resolver and a slot matching resolver; this composes the two policies that
stand for them. It is pure arithmetic on what is offered, in about n log n steps for n slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_adaptive.scheduler.allocator.load_balancing import (
    LoadBalanceMode,
    LoadingWeight,
    choose_slots,
    declared_weight,
    spread,
)
from airflow_adaptive.scheduler.allocator.task_placement import GroupSlots, Subtask, place_balanced, place_by_index
from airflow_adaptive.scheduler.events import SlotOffer
from airflow_adaptive.scheduler.job_graph import JobGraph
from airflow_adaptive.scheduler.requirements import Parallelism


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Every slot of a plan on a worker.

    Slots are counted through the groups: those of the first group, then those of the next one.

    Attributes:
        groups: where in its group's slots every subtask lies.
        workers: of each slot.
        loads: of each slot, by the weight that was assigned with.
    """

    groups: tuple[GroupSlots, ...]
    workers: tuple[str, ...]
    loads: tuple[float, ...]

    @property
    def slots_per_worker(self) -> dict[str, int]:
        """How many slots are used on each worker; workers without any are left out, here and below."""
        return dict(Counter(self.workers))

    @property
    def tasks_per_worker(self) -> dict[str, int]:
        """How many subtasks each worker runs."""
        tasks: Counter[str] = Counter()
        slots = (subtasks for group in self.groups for subtasks in group.tasks())
        for worker, subtasks in zip(self.workers, slots, strict=True):
            tasks[worker] += subtasks
        return dict(tasks)

    @property
    def load_per_worker(self) -> dict[str, float]:
        """What each worker bears."""
        loads = dict.fromkeys(self.workers, 0.0)
        for worker, load in zip(self.workers, self.loads, strict=True):
            loads[worker] += load
        return loads

    @property
    def imbalance(self) -> float:
        """The largest load of a worker as a multiple of the average: 1 if all bear the same."""
        loads = self.load_per_worker.values()
        return max(loads) * len(loads) / sum(loads)

    def contents(self) -> dict[str, list[list[Subtask]]]:
        """Per worker its slots, per slot its subtasks; an object per subtask, so for people and small jobs."""
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
    weight: LoadingWeight = declared_weight,
) -> Assignment | None:
    """Where the subtasks of a plan go, None while the slots for all of them are not there.

    Args:
        job: a valid graph.
        parallelism: of every vertex, at least 1.
        offers: slots that the job holds or could have; NONE takes free ones in this order.
        mode: what is spread evenly.
        weight: what is balanced by TASKS.
    """
    place = place_balanced if mode is LoadBalanceMode.TASKS else place_by_index
    groups = place(job, parallelism)
    weights = {vertex.name: weight(vertex) for vertex in job.vertices}
    loads = tuple(load for group in groups for load in group.loads(weights))
    workers = choose_slots(offers, len(loads), mode)
    if workers is None:
        return None
    return Assignment(groups=groups, workers=spread(loads, workers, mode), loads=loads)
