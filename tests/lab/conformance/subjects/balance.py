"""Load balancing: the assignment of subtasks to slots, and of slots to workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_adaptive._core.scheduler.allocator import (
    LoadBalanceMode,
    choose_slots,
    place_balanced,
    place_by_index,
    spread,
)
from airflow_adaptive._core.scheduler.config.parsing import load_balance_mode
from airflow_adaptive._core.scheduler.events import SlotOffer
from tests.lab.conformance.result import (
    DESCRIPTION,
    Comparison,
    NotApplicableError,
    Vector,
    require_known,
)
from tests.lab.conformance.subjects.job_graphs import graph

Normalize = Callable[[Any], Any]
"""Converts an expected or actual value to a comparable form, for example without order or idle workers."""

_EXPECTATION = re.compile(r"(?:expected|observed)_(?:(?:flip|flink(?:_\d+)*)_)?(?P<fact>.+?)(?:_one_of)?")

_NO_SIZE = ("ANY", "UNKNOWN")
"""Resource profiles that match every profile."""


def balanced_tasks(vector: Vector) -> Iterator[Comparison]:
    """`SlotSharingResolver#getExecutionSlotSharingGroups`, with every vertex at its upper bound."""
    _require_inputs(vector, "mode", "vertices")
    job = graph(vector["vertices"])
    place = place_balanced if _mode(vector) is LoadBalanceMode.TASKS else place_by_index
    groups = place(job, {vertex.name: vertex.parallelism.upper for vertex in job.vertices})
    written = {g.group: [[f"{name}[{index}]" for name, index in slot] for slot in g.contents()] for g in groups}
    yield from _compare(
        vector,
        tasks_per_slot=({group.group: group.tasks() for group in groups}, _each(sorted)),
        slots=(written, _each(lambda slots: sorted(map(sorted, slots)))),
    )


def slot_to_tm(vector: Vector) -> Iterator[Comparison]:
    """`SlotMatchingResolver#matchSlotSharingGroupWithSlots` and, with `slots`, `RequestSlotMatchingStrategy`.

    All slots of Flink's pool are available to the job, so this check offers all of them as free slots.
    """
    _require_inputs(vector, "mode", "requests", "tms", "slots", "initial_load")
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


def minimal_taskmanagers(vector: Vector) -> Iterator[Comparison]:
    """`DefaultSlotAssigner#pickSlotsIfNeeded` in application mode: the job holds all slots of the pool."""
    _require_inputs(vector, "groups", "tms")
    held = [SlotOffer(worker=worker, held=slots) for worker, slots in vector["tms"].items()]
    chosen = choose_slots(held, vector["groups"], LoadBalanceMode.NONE) or ()
    yield from _compare(
        vector,
        kept_tms=([slots.worker for slots in chosen], sorted),
        slots_per_tm=({slots.worker: slots.total for slots in chosen}, _used),
    )


# ---- reading --------------------------------------------------------------------------------------------------------


def _require_inputs(inputs: Mapping[str, Any], *known: str) -> None:
    """Refuse inputs that a check does not read. Raises `NotApplicableError`."""
    require_known("input", (key for key in inputs if not _EXPECTATION.fullmatch(key)), (*known, *DESCRIPTION))


def _mode(vector: Vector) -> LoadBalanceMode:
    if vector["mode"] == "MIN_RESOURCES":
        # The mode only affects Flink's resource manager. Flink's adaptive scheduler treats it as NONE.
        return LoadBalanceMode.NONE
    try:
        return load_balance_mode(vector["mode"])
    except ValueError as error:
        raise NotApplicableError(str(error)) from error


def _workers(vector: Vector) -> Sequence[SlotOffer]:
    if "tms" in vector:
        return [SlotOffer(worker=worker, free=slots) for worker, slots in vector["tms"].items()]
    _require_one_size(vector)
    return [SlotOffer(worker=worker, free=n) for worker, n in Counter(s["tm"] for s in vector["slots"]).items()]


def _require_one_size(vector: Vector) -> None:
    """Refuse requests that do not fit every slot, because all slots of a Spark job have the same size."""
    for slot in vector["slots"]:
        _require_inputs(slot, "tm", "profile")
    sizes = {slot.get("profile", _NO_SIZE[0]) for slot in vector["slots"]}
    wanted = {r.get("profile", _NO_SIZE[1]) for r in vector["requests"] if isinstance(r, Mapping)}.difference(_NO_SIZE)
    if len(sizes) > 1 or (sizes.isdisjoint(_NO_SIZE) and wanted - sizes):
        raise NotApplicableError(
            "slots and requests have different sizes, but all slots of a Spark job have the same size"
        )


def _load(request: Any) -> float:
    if not isinstance(request, Mapping):
        return float(request)
    _require_inputs(request, "load", "profile")
    return float(request["load"])


# ---- comparing ------------------------------------------------------------------------------------------------------


def _compare(vector: Vector, **facts: tuple[Any, Normalize]) -> Iterator[Comparison]:
    """Yield a comparison for each fact, which expects one of several outcomes."""
    outcomes: dict[str, list[Any]] = {}
    for key, value in vector.items():
        if matched := _EXPECTATION.fullmatch(key):
            outcomes.setdefault(matched["fact"], []).extend(_outcomes(value))
    require_known("expectation", outcomes, facts)
    for fact, expected in outcomes.items():
        actual, normalize = facts[fact]
        forms = [_normalized(outcome, normalize) for outcome in expected]
        yield Comparison(what=fact, expected=expected, actual=actual, meets=_is_any_of(forms, normalize))


def _is_any_of(forms: Sequence[Any], normalize: Normalize) -> Callable[[Any, Any], bool]:
    """Return whether a result has one of the forms; the form None is no result at all."""
    return lambda _, actual: any(not actual if form is None else _has(form, actual, normalize) for form in forms)


def _has(form: Any, actual: Any, normalize: Normalize) -> bool:
    try:
        return bool(form == normalize(actual))
    except (AttributeError, TypeError):  # a result of another type
        return False


def _normalized(outcome: Any, normalize: Normalize) -> Any:
    try:
        return None if outcome is None else normalize(outcome)
    except (AttributeError, TypeError) as error:
        raise NotApplicableError(f"unknown form of outcome: {outcome!r}") from error


def _outcomes(value: Any) -> list[Any]:
    """Return the expected outcomes. A list of lists or objects contains several outcomes."""
    several = isinstance(value, list) and value and all(isinstance(item, (list, Mapping)) for item in value)
    return value if several else [value]


def _each(normalize: Normalize) -> Normalize:
    return lambda groups: {group: normalize(slots) for group, slots in groups.items()}


def _used(per_worker: Mapping[str, float]) -> Mapping[str, float]:
    return {worker: count for worker, count in per_worker.items() if count}


def _sorted_used(counts: Sequence[float]) -> Sequence[float]:
    return sorted(count for count in counts if count)
