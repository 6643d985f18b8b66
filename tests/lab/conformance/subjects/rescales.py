"""Rescales: their conditions, their triggers and their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.policies.rescaling import MinimalIncrease, parallelism_changed, should_rescale
from airflow_adaptive._core.scheduler.policies.restart_backoff import MILLISECOND
from airflow_adaptive._core.scheduler.policies.transition_manager import Phase
from airflow_adaptive._core.scheduler.requirements import Parallelism, ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing, Restarting
from tests.lab.conformance.result import (
    Comparison,
    NotApplicableError,
    Vector,
    compare,
    compare_stated,
    expect_only,
    may_fail,
    require_known,
)
from tests.lab.scenario import Scenario

_UNLIMITED = 2**15
_SUFFICIENT_INCREASE = 2
_INCREASE_IF_FORCED = 1
_NO_WAIT: Mapping[str, Any] = {"executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def rescaling_controller(vector: Vector) -> Iterator[Comparison]:
    """`EnforceMinimalIncrease-` and `EnforceParallelismChangeRescalingController` of Flink 1.18-1.20."""
    expect_only(vector, "expected_rescale")
    least, current, new = vector.get("min_parallelism_increase"), vector["current"], vector["new"]
    if least is None:
        actual = parallelism_changed(current, new)
    else:
        bounds = dict.fromkeys(new, ParallelismRange(1, _UNLIMITED))
        actual = should_rescale(current, new, bounds, MinimalIncrease(min_increase=least))
    yield from compare("rescale", vector["expected_rescale"], actual)


def changed(vector: Vector) -> Iterator[Comparison]:
    """`Executing#parallelismChanged`."""
    expect_only(vector, "expected")
    available: Parallelism | None = vector["available"]
    actual = available is not None and parallelism_changed(vector["current"], available)
    yield from compare("parallelism changed", vector["expected"], actual)


def rescale_on_checkpoint(vector: Vector) -> Iterator[Comparison]:
    """Committed batches as the trigger of a rescale (FLIP-461)."""
    expect_only(vector, "expected_triggers")
    scenario = Scenario(lower=1, upper=2, max_failed_batches=vector["max_checkpoint_failures"]).given_executing(2)
    triggers = 0
    for number, event in enumerate(vector["events"], start=1):
        _ready_for_trigger(scenario)
        _batch_event(scenario, event["event"], number)
        triggers += _manager_phase(scenario) is Phase.IDLING
        yield from compare(f"triggers after event {number}", event["expected_triggers"], triggers)


def _ready_for_trigger(scenario: Scenario) -> None:
    """Put the transition manager into STABILIZED. A trigger without new resources then returns it to IDLING."""
    current = scenario.state.current
    if isinstance(current, Executing):
        stabilized = replace(current.manager, phase=Phase.STABILIZED, first_change=scenario.now)
        scenario.state = replace(scenario.state, current=replace(current, manager=stabilized))


def _manager_phase(scenario: Scenario) -> Phase | None:
    current = scenario.state.current
    return current.manager.phase if isinstance(current, Executing) else None


def _batch_event(scenario: Scenario, event: str, number: int) -> None:
    match event:
        case "checkpoint_completed":
            scenario.when_committed()
        case "checkpoint_failed":
            pass  # In Spark, a failed batch fails its query.
        case "new_resources":
            scenario.when_slots(held=2, free=number)
        case "new_requirements":
            scenario.when_requirements(lower=1, upper=2 + number).when_requirements(lower=1, upper=2)
        case _:
            raise NotApplicableError(f"unknown event: {event}")


def metrics(vector: Vector) -> Iterator[Comparison]:
    """`numRestarts` and `numRescales`."""
    scenario = Scenario(lower=1, upper=4, scaling_interval_min=0, **_NO_WAIT).given_executing(2)
    match vector["cause"]:
        case "failure" | "task_failure" | "task_failed" | "global_failure" | "failure_recovery":
            scenario.when_query_failed()
        case "rescale" | "new_resources" | "resources" | "scale_up":
            scenario.when_slots(held=2, free=2)
        case "new_requirements" | "requirements" | "scale_down":
            scenario.when_requirements(1, 1)
        case other:
            raise NotApplicableError(f"unknown cause: {other}")
    counted = {"numRestarts": scenario.state.num_restarts, "numRescales": scenario.state.num_rescales}
    for name, expected in vector["expected"].items():
        if name not in counted:
            raise NotApplicableError(f"unknown metric: {name}")
        yield from compare(name, expected, counted[name])


@may_fail
def legacy_scaling_interval(vector: Vector) -> Iterator[Comparison]:
    """Cooldown and forced rescale of Flink 1.18 to 1.20, which is `cooldown_extension` `first_change`."""
    expected = vector["expected"]
    require_known("expectation", expected, ("action", "delay_s", "then", "backoff_ms", "error"))
    scenario = _executing_as_in_1_18(vector)
    scenario.after(vector["seconds_since_last_rescale"])
    scenario.when_slots(held=2, free=_SUFFICIENT_INCREASE if vector["should_rescale"] else _INCREASE_IF_FORCED)
    delay = _seconds_to_next_timer(scenario)
    yield from compare_stated("delay", expected, "delay_s", delay)
    if vector["should_rescale_forced"] is False:
        scenario.when_slots(held=2)
    scenario.after(delay or 0)
    yield from _compare_restart(expected, scenario)


def _executing_as_in_1_18(vector: Vector) -> Scenario:
    return Scenario(
        lower=1,
        upper=8,
        min_parallelism_increase=_SUFFICIENT_INCREASE,
        scaling_interval_min=vector["scaling_interval_min_s"],
        scaling_interval_max=vector["scaling_interval_max_s"],
        cooldown_extension="first_change",
        **_NO_WAIT,
    ).given_executing(2)


def _compare_restart(expected: Mapping[str, Any], scenario: Scenario) -> Iterator[Comparison]:
    restarting = next((s.state.current for s in scenario.steps if isinstance(s.state.current, Restarting)), None)
    yield from compare("next state", expected.get("then"), None if restarting is None else "Restarting")
    if restarting is not None and expected.get("backoff_ms") is not None:
        yield from compare("backoff", expected["backoff_ms"], restarting.backoff // MILLISECOND)


def _seconds_to_next_timer(scenario: Scenario) -> float | None:
    """Return the seconds until the next timer: 0 if the job rescaled immediately, None if no timer is set."""
    if "Restarting" in scenario.path:
        return 0
    due = machine.timers(scenario.state)
    return (due[0].due - scenario.now).total_seconds() if due else None
