"""Balance: which subtasks lie in which slot, and which slots on which worker."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_adaptive.scheduler.allocator.load_balancing import LoadBalanceMode, WorkerSlots, choose_slots, spread
from airflow_adaptive.scheduler.allocator.task_placement import place_balanced, place_by_index
from airflow_adaptive.scheduler.config.parsing import load_balance_mode
from airflow_adaptive.testing.conformance.result import Deviation, NotApplicableError, Vector
from airflow_adaptive.testing.conformance.subjects.job_graphs import graph

Normalise = Callable[[Any], Any]
"""Makes what a vector says and what the scheduler did comparable: order and idle workers may not matter."""

_ABOUT = ("id", "source", "notes", "verified", "uncertain")
_EXPECTATION = re.compile(r"(?:expected|observed)_(?:(?:flip|flink(?:_\d+)*)_)?(?P<fact>.+?)(?:_one_of)?")

_NO_SIZE = ("ANY", "UNKNOWN")
"""Resource profiles that fit any other."""


def balanced_tasks(vector: Vector) -> Iterator[Deviation]:
    """`SlotSharingResolver#getExecutionSlotSharingGroups`: slots as they are filled when every bound is reached."""
    _understand(vector, "mode", "vertices")
    job = graph(vector["vertices"])
    place = place_balanced if _mode(vector) is LoadBalanceMode.TASKS else place_by_index
    groups = place(job, {vertex.name: vertex.parallelism.upper for vertex in job.vertices})
    written = {g.group: [[f"{name}[{index}]" for name, index in slot] for slot in g.contents()] for g in groups}
    yield from _compare(
        vector,
        tasks_per_slot=({group.group: group.tasks() for group in groups}, _each(sorted)),
        slots=(written, _each(lambda slots: sorted(map(sorted, slots)))),
    )


def slot_to_tm(vector: Vector) -> Iterator[Deviation]:
    """`SlotMatchingResolver#matchSlotSharingGroupWithSlots` and, with `slots`, `RequestSlotMatchingStrategy`.

    Slots of Flink's pool are free to be taken in their order, so they are free slots here, whoever holds them.
    """
    _understand(vector, "mode", "requests", "tms", "slots", "initial_load")
    mode, loads = _mode(vector), [_load(request) for request in vector["requests"]]
    chosen = choose_slots(_workers(vector), len(loads), mode)
    placed = () if chosen is None else spread(loads, chosen, mode, vector.get("initial_load"))
    slots, tasks = Counter(placed), dict.fromkeys(placed, 0.0)
    for worker, load in zip(placed, loads, strict=bool(placed)):
        tasks[worker] += load
    yield from _compare(
        vector,
        error=("too few slots" if chosen is None else None, bool),
        matches=(len(placed), lambda matches: matches),
        tasks_per_tm=(tasks, _used),
        tasks_per_tm_sorted=([*tasks.values()], _sorted_used),
        slots_per_tm=(slots, _used),
        slots_per_tm_sorted=([*slots.values()], _sorted_used),
    )


def minimal_taskmanagers(vector: Vector) -> Iterator[Deviation]:
    """`DefaultSlotAssigner#pickSlotsIfNeeded` of an application: the slots of its pool are held by the job."""
    _understand(vector, "groups", "tms")
    held = [WorkerSlots(worker=worker, held=slots) for worker, slots in vector["tms"].items()]
    chosen = choose_slots(held, vector["groups"], LoadBalanceMode.NONE) or ()
    yield from _compare(
        vector,
        kept_tms=([slots.worker for slots in chosen], sorted),
        slots_per_tm=({slots.worker: slots.total for slots in chosen}, _used),
    )


# ---- reading --------------------------------------------------------------------------------------------------------


def _understand(described: Mapping[str, Any], *known: str) -> None:
    """Refuse what says more than its judge reads, beside expectations.

    Raises:
        NotApplicableError: naming it.
    """
    unknown = sorted(key for key in described if key not in (*known, *_ABOUT) and not _EXPECTATION.fullmatch(key))
    if unknown:
        raise NotApplicableError(f"input not understood: {', '.join(unknown)}")


def _mode(vector: Vector) -> LoadBalanceMode:
    if vector["mode"] == "MIN_RESOURCES":
        # It tells Flink's resource manager which workers to fill first; the adaptive scheduler does as for NONE.
        return LoadBalanceMode.NONE
    try:
        return load_balance_mode(vector["mode"])
    except ValueError as error:
        raise NotApplicableError(str(error)) from error


def _workers(vector: Vector) -> Sequence[WorkerSlots]:
    if "tms" in vector:
        return [WorkerSlots(worker=worker, free=slots) for worker, slots in vector["tms"].items()]
    _require_one_size(vector)
    return [WorkerSlots(worker=worker, free=n) for worker, n in Counter(s["tm"] for s in vector["slots"]).items()]


def _require_one_size(vector: Vector) -> None:
    """Refuse requests that do not fit every slot: on Spark the slots of a job are all alike."""
    for slot in vector["slots"]:
        _understand(slot, "tm", "profile")
    sizes = {slot.get("profile", _NO_SIZE[0]) for slot in vector["slots"]}
    wanted = {r.get("profile", _NO_SIZE[1]) for r in vector["requests"] if isinstance(r, Mapping)}.difference(_NO_SIZE)
    if len(sizes) > 1 or (sizes.isdisjoint(_NO_SIZE) and wanted - sizes):
        raise NotApplicableError("slots and requests of different sizes: all slots of a Spark job are alike")


def _load(request: Any) -> float:
    if not isinstance(request, Mapping):
        return float(request)
    _understand(request, "load", "profile")
    return float(request["load"])


# ---- comparing ------------------------------------------------------------------------------------------------------


def _compare(vector: Vector, **facts: tuple[Any, Normalise]) -> Iterator[Deviation]:
    """A deviation for each fact that is none of the outcomes that the vector knows."""
    outcomes: dict[str, list[Any]] = {}
    for key, value in vector.items():
        if matched := _EXPECTATION.fullmatch(key):
            outcomes.setdefault(matched["fact"], []).extend(_outcomes(value))
    unknown = sorted(outcomes.keys() - facts.keys())
    if unknown:
        raise NotApplicableError(f"expectation not understood: {', '.join(unknown)}")
    for fact, expected in outcomes.items():
        actual, normalise = facts[fact]
        if not any(_same(outcome, actual, normalise) for outcome in expected):
            yield Deviation(what=fact, expected=expected, actual=actual)


def _same(outcome: Any, actual: Any, normalise: Normalise) -> bool:
    """Whether the outcome is the actual one; null is none at all."""
    try:
        return not actual if outcome is None else bool(normalise(outcome) == normalise(actual))
    except (AttributeError, TypeError) as error:
        raise NotApplicableError(f"outcome not understood: {outcome!r}") from error


def _outcomes(value: Any) -> list[Any]:
    """One outcome, or several: a list of what an outcome looks like."""
    several = isinstance(value, list) and value and all(isinstance(item, (list, Mapping)) for item in value)
    return value if several else [value]


def _each(normalise: Normalise) -> Normalise:
    return lambda groups: {group: normalise(slots) for group, slots in groups.items()}


def _used(per_worker: Mapping[str, float]) -> Mapping[str, float]:
    return {worker: count for worker, count in per_worker.items() if count}


def _sorted_used(counts: Sequence[float]) -> Sequence[float]:
    return sorted(count for count in counts if count)
