"""Which slots go to which worker: the second half of FLIP-370, after Flink's slot matching resolvers.

Theory: the slots that a plan needs are matched with those that workers offer, all of them or none: half a plan does not
run, and what came first would sit badly when the rest comes. NONE takes slots as they come, those that the job holds
first, and when it holds too many it keeps whole workers, so that the others can be given back. SLOTS gives each slot to
the worker that is used least, TASKS the heaviest slot to the worker with the lightest load, again and again. Where
workers are equal, the one on which the job holds most slots comes first, then the one with most free slots, then the
lower id; Flink goes by hash, and so may give a heavy slot to a worker that has room for one only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from typing import Protocol

from airflow_adaptive.scheduler.job_graph import JobVertex


class LoadBalanceMode(StrEnum):
    """What is spread evenly (Flink: `taskmanager.load-balance.mode`)."""

    NONE = "none"
    """Nothing: subtask i of every vertex lies in slot i, slots are taken as they come."""
    SLOTS = "slots"
    """Slots over workers."""
    TASKS = "tasks"
    """Subtasks over slots, and their load over workers."""


class LoadingWeight(Protocol):
    """What a subtask of a vertex weighs when load is balanced; greater than zero."""

    def __call__(self, vertex: JobVertex, /) -> float:
        """The weight."""
        ...


def number_of_tasks(_: JobVertex) -> float:
    """Every subtask weighs the same, so the load is the number of tasks (Flink: DefaultTaskExecutionLoad)."""
    return 1.0


def declared_weight(vertex: JobVertex) -> float:
    """What the job graph says; unless it says something, the same as `number_of_tasks`."""
    return vertex.loading_weight


class Offer(Protocol):
    """Slots of one worker: `held` by the job already, and `free`."""

    @property
    def worker(self) -> str:
        """Id of the worker; offers of the same worker are taken together."""
        ...

    @property
    def held(self) -> int:
        """Slots of the job's own executors."""
        ...

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSlots:
    """Slots of one worker that a plan may use (see `Offer`)."""

    worker: str
    held: int = 0
    free: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.held + self.free


def choose_slots(offers: Iterable[Offer], wanted: int, mode: LoadBalanceMode) -> tuple[WorkerSlots, ...] | None:
    """The slots that `wanted` slots of a plan are matched with, None if there are fewer.

    NONE takes exactly as many: held ones first; if there are more of these than wanted, those of whole workers. The
    other modes leave the choice among all slots to `spread`.
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
    workers: Sequence[WorkerSlots],
    mode: LoadBalanceMode,
    initial_load: Mapping[str, float] | None = None,
) -> tuple[str, ...]:
    """The worker of each slot of a plan.

    Args:
        loads: of each slot.
        workers: at least as many slots (`choose_slots`).
        mode: what is spread.
        initial_load: of each worker, if it has a load already; TASKS goes by it.
    """
    if mode is LoadBalanceMode.NONE:
        return _as_they_come(workers)[: len(loads)]
    if mode is LoadBalanceMode.SLOTS:
        return _deal(range(len(loads)), workers, {}, lambda _, __, worker, left: 1 - left / worker.total)
    heaviest_first = sorted(range(len(loads)), key=loads.__getitem__, reverse=True)
    return _deal(heaviest_first, workers, initial_load or {}, lambda load, slot, _, __: load + loads[slot])


# ---- choosing -------------------------------------------------------------------------------------------------------


def _merged(offers: Iterable[Offer]) -> tuple[WorkerSlots, ...]:
    merged: dict[str, WorkerSlots] = {}
    for offer in offers:
        known = merged.get(offer.worker)
        held, free = (0, 0) if known is None else (known.held, known.free)
        merged[offer.worker] = WorkerSlots(worker=offer.worker, held=held + offer.held, free=free + offer.free)
    return tuple(merged.values())


def _keep(workers: Iterable[WorkerSlots], wanted: int) -> tuple[WorkerSlots, ...]:
    """Held slots on the fewest workers (Flink: `prefer-minimal-taskmanagers`); none is cut but the last one."""
    kept: list[WorkerSlots] = []
    for worker in sorted(workers, key=lambda worker: (-worker.held, worker.worker)):
        if wanted <= 0:
            break
        kept.append(WorkerSlots(worker=worker.worker, held=min(worker.held, wanted)))
        wanted -= worker.held
    return tuple(kept)


def _add(workers: Iterable[WorkerSlots], missing: int) -> tuple[WorkerSlots, ...]:
    """All held slots, and as many free ones as are missing, as they come."""
    chosen: list[WorkerSlots] = []
    for worker in workers:
        added = min(worker.free, missing)
        missing -= added
        chosen.append(WorkerSlots(worker=worker.worker, held=worker.held, free=added))
    return tuple(worker for worker in chosen if worker.total)


# ---- spreading ------------------------------------------------------------------------------------------------------


def _as_they_come(workers: Sequence[WorkerSlots]) -> tuple[str, ...]:
    held = (worker.worker for worker in workers for _ in range(worker.held))
    free = (worker.worker for worker in workers for _ in range(worker.free))
    return (*held, *free)


_Pressure = Callable[[float, int, WorkerSlots, int], float]
"""How hard a worker is pressed after it took a slot, from: pressure before, slot, worker, slots that it has left."""


def _deal(
    slots: Sequence[int], workers: Iterable[WorkerSlots], initial: Mapping[str, float], pressure_after: _Pressure
) -> tuple[str, ...]:
    """Give the slots, in this order, to the worker that is pressed least."""
    ranked = sorted((worker for worker in workers if worker.total), key=lambda worker: worker.worker)
    heap = [(initial.get(w.worker, 0.0), -w.held, -w.free, rank) for rank, w in enumerate(ranked)]
    heapify(heap)
    dealt = [""] * len(slots)
    for slot in slots:
        pressure, held, free, rank = heap[0]
        dealt[slot] = ranked[rank].worker
        held, free = (held + 1, free) if held else (0, free + 1)
        if left := -held - free:
            heapreplace(heap, (pressure_after(pressure, slot, ranked[rank], left), held, free, rank))
        else:
            heappop(heap)
    return tuple(dealt)
