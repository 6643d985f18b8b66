"""Slot assignment: the slot of each subtask, and the worker of each slot.

Like Flink's SlotAssigner, `assign` combines slot sharing (`task_placement`) and slot matching (`load_balancing`). It needs about
n log n steps for n slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_adaptive._core.scheduler.allocator.load_balancing import (
    LoadBalanceMode,
    choose_slots,
    spread,
)
from airflow_adaptive._core.scheduler.allocator.task_placement import (
    GroupSlots,
    Subtask,
    place_balanced,
    place_by_index,
)
from airflow_adaptive._core.scheduler.events import SlotOffer
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import Parallelism


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
