"""Runs conformance vectors against the scheduler and sums up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_adaptive.testing.conformance.differences import why
from airflow_adaptive.testing.conformance.result import Deviation, Judge, NotApplicableError, Vector
from airflow_adaptive.testing.conformance.subjects import (
    balance,
    options,
    requirements,
    rescales,
    restarts,
    slots,
    states,
    timeline,
    transition_manager,
)

JUDGES: Mapping[str, Judge] = {
    "slot_allocator": slots.slot_allocator,
    "required_slots": slots.slots_required,
    "has_desired_resources": slots.has_desired_resources,
    "restart_strategies": restarts.restart_strategies,
    "restart_strategy_loader": restarts.restart_strategy_loader,
    "transition_manager": transition_manager.transition_manager,
    "state_transitions": states.state_transitions,
    "rescaling_controller": rescales.rescaling_controller,
    "parallelism_changed": rescales.changed,
    "rescale_on_checkpoint": rescales.rescale_on_checkpoint,
    "metrics": rescales.metrics,
    "rescale_timeline": timeline.rescale_timeline,
    "legacy_scaling_interval": rescales.legacy_scaling_interval,
    "requirements_validation": requirements.requirements_validation,
    "requirements_query": requirements.requirements_query,
    "apply_requirements": requirements.apply_requirements,
    "vertex_parallelism_store": requirements.vertex_parallelism_store,
    "settings": options.settings,
    "balanced_tasks": balance.balanced_tasks,
    "slot_to_tm": balance.slot_to_tm,
    "minimal_taskmanagers": balance.minimal_taskmanagers,
}
"""Areas that the scheduler can be asked of."""

NOT_ASKED: Mapping[str, str] = {
    "state_locality": "state has no slot of its own: Spark runs a stateful task where the state store of its partition is",
}
"""Areas that the scheduler has no part in, and why."""


@dataclass(kw_only=True)
class Tally:
    """What came of an area's vectors.

    Attributes:
        passed: how many did as expected.
        differing: those that differ on purpose, with the reason.
        not_applicable: those that could not be asked, with the reason.
        deviating: those that deviate without a reason, with what deviates.
    """

    passed: int = 0
    differing: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)
    deviating: list[str] = field(default_factory=list)


def run(areas: Mapping[str, Sequence[Vector]]) -> dict[str, Tally]:
    """Judge the vectors of every area; those whose name begins with an underscore describe the file."""
    return {area: _run_area(area, vectors) for area, vectors in areas.items() if not area.startswith("_")}


def _run_area(area: str, vectors: Sequence[Vector]) -> Tally:
    tally, judge = Tally(), JUDGES.get(area) or _nobody(area)
    for vector in vectors:
        name = vector.get("id", "?")
        try:
            deviations = list(judge(vector))
        except NotApplicableError as reason:
            tally.not_applicable.append(f"{name}: {reason}")
            continue
        except Exception as error:  # noqa: BLE001  one that can't be judged must not hide the others
            tally.deviating.append(f"{name}: can't be judged: {type(error).__name__} {error}")
            continue
        _add(tally, area, vector, deviations)
    return tally


def _add(tally: Tally, area: str, vector: Vector, deviations: list[Deviation]) -> None:
    name = vector.get("id", "?")
    reasons = [why(area, vector, deviation) for deviation in deviations]
    unexplained = [_told(d) for d, reason in zip(deviations, reasons, strict=True) if reason is None]
    if unexplained:
        tally.deviating.append(f"{name}: {'; '.join(unexplained)}")
    elif reasons:
        tally.differing.append(f"{name}: {'; '.join(dict.fromkeys(filter(None, reasons)))}")
    else:
        tally.passed += 1


def _told(deviation: Deviation) -> str:
    return f"{deviation.what}: expected {deviation.expected!r}, got {deviation.actual!r}"


def _nobody(area: str) -> Judge:
    def refuse(_: Vector) -> Iterator[Deviation]:
        raise NotApplicableError(NOT_ASKED.get(area, "no policy of the scheduler does this"))

    return refuse
