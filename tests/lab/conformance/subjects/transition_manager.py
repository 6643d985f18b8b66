"""The transition manager: the time at which the scheduler reacts to a change of resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_adaptive._core.scheduler.policies.restart_backoff import MILLISECOND
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase, ResourceLevel, TransitionManager
from tests.lab.conformance.result import (
    Comparison,
    NotApplicableError,
    Vector,
    compare_stated,
    expect_only,
    may_fail,
)
from tests.lab.scenario import START

_RESOURCES = {"none": ResourceLevel.NONE, "sufficient": ResourceLevel.SUFFICIENT, "desired": ResourceLevel.DESIRED}


@may_fail
def transition_manager(vector: Vector) -> Iterator[Comparison]:
    """`DefaultStateTransitionManager`."""
    expect_only(vector, "expected_phase", "expected_transitioned", "expected_construct_error")
    settings = {name.removesuffix("_ms"): value * MILLISECOND for name, value in vector["params"].items()}
    manager = TransitionManager.begin(START, **settings)
    yield from _events(manager, _RESOURCES[vector.get("initial_resources", "none")], vector.get("events", []))


def _events(manager: TransitionManager, resources: ResourceLevel, events: list[dict[str, Any]]) -> Iterator[Comparison]:
    for number, event in enumerate(events, start=1):
        now = START + event["at_ms"] * MILLISECOND
        manager = manager.advance(now, resources)
        match event["event"]:
            case "change":
                manager = manager.change(now, resources)
            case "trigger":
                manager = manager.trigger(now, resources)
            case "resources":
                resources = _RESOURCES[event["value"]]
            case "advance":
                pass
            case other:
                raise NotApplicableError(f"unknown event: {other}")
        moved = manager.phase is Phase.TRANSITIONING
        yield from compare_stated(f"phase after event {number}", event, "expected_phase", manager.phase)
        yield from compare_stated(f"transitioned by event {number}", event, "expected_transitioned", moved)
