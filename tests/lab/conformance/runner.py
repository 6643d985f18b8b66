"""Checks the scheduler with conformance vectors, and collects the results of each area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.lab.conformance.differences import reason_for
from tests.lab.conformance.result import Check, Comparison, NotApplicableError, Vector
from tests.lab.conformance.subjects import (
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

CHECKS: Mapping[str, Check] = {
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
"""The checks of all areas, by name of the area."""

NOT_APPLICABLE: Mapping[str, str] = {
    "state_locality": "a slot has no state: Spark runs a stateful task on the executor that has the state store of the partition",
}
"""Areas without a counterpart in the scheduler, with the reasons."""


@dataclass(kw_only=True)
class AreaResult:
    """The results of the vectors of one area.

    Attributes:
        passed: number of vectors without a deviation.
        differing: vectors that only have deliberate differences, with the reasons.
        not_applicable: vectors that do not apply to the scheduler, with the reasons.
        deviating: vectors with at least one unexplained deviation, with these deviations.
    """

    passed: int = 0
    differing: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)
    deviating: list[str] = field(default_factory=list)


def run(areas: Mapping[str, Sequence[Vector]]) -> dict[str, AreaResult]:
    """Check the vectors of every area, except entries whose name begins with an underscore: they describe the file."""
    return {area: _run_area(area, vectors) for area, vectors in areas.items() if not area.startswith("_")}


def _run_area(area: str, vectors: Sequence[Vector]) -> AreaResult:
    result = AreaResult()
    if area not in CHECKS:
        reason = NOT_APPLICABLE.get(area, "the scheduler has no counterpart to this area")
        return AreaResult(not_applicable=[f"{vector.get('id', '?')}: {reason}" for vector in vectors])
    for vector in vectors:
        name = vector.get("id", "?")
        try:
            comparisons = list(CHECKS[area](vector))
        except NotApplicableError as error:
            result.not_applicable.append(f"{name}: {error}")
            continue
        except Exception as error:  # noqa: BLE001  an invalid vector must not prevent the checks of the other vectors
            result.deviating.append(f"{name}: the check failed: {type(error).__name__} {error}")
            continue
        _add(result, area, vector, comparisons)
    return result


def _add(result: AreaResult, area: str, vector: Vector, comparisons: list[Comparison]) -> None:
    name = vector.get("id", "?")
    deviations = [comparison for comparison in comparisons if comparison.deviates]
    reasons = [reason_for(area, vector, deviation) for deviation in deviations]
    unexplained = [_describe(d) for d, reason in zip(deviations, reasons, strict=True) if reason is None]
    if not comparisons:
        result.deviating.append(f"{name}: the vector states no expectation")
    elif unexplained:
        result.deviating.append(f"{name}: {'; '.join(unexplained)}")
    elif reasons:
        result.differing.append(f"{name}: {'; '.join(dict.fromkeys(filter(None, reasons)))}")
    else:
        result.passed += 1


def _describe(deviation: Comparison) -> str:
    return f"{deviation.what}: expected {deviation.expected!r}, got {deviation.actual!r}"
