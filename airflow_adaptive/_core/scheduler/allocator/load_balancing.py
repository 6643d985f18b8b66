"""Slot matching: the worker of each slot, the second part of FLIP-370, after Flink's slot matching resolvers.

Theory: all slots of a plan are matched with offered slots together, because a part of a plan cannot run. The mode NONE takes
first the slots that the job holds, then free slots in the order of the offers; from surplus slots, it keeps those of whole
workers, so that the other workers can be released. The mode SLOTS assigns each slot to the least used worker. The mode TASKS
assigns the heaviest remaining slot to the worker with the smallest load. Among equal workers, the worker with most held slots
comes first, then the worker with most free slots, then the lower id. Flink uses the order of a hash, and may therefore assign a
heavy slot to a worker with one free slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from heapq import heapify, heappop, heapreplace

from airflow_adaptive._core.scheduler.events import SlotOffer


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
        merged[offer.worker] = SlotOffer(worker=offer.worker, held=held + offer.held, free=free + offer.free)
    return tuple(merged.values())


def _keep(workers: Iterable[SlotOffer], wanted: int) -> tuple[SlotOffer, ...]:
    """Return held slots on the fewest workers (Flink: `prefer-minimal-taskmanagers`)."""
    kept: list[SlotOffer] = []
    for worker in sorted(workers, key=lambda worker: (-worker.held, worker.worker)):
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
