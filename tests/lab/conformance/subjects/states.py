"""State transitions: the state that follows each event in each state.

A scenario reaches the state of a vector through events. The check compares the first transition after the event of the vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_adaptive._core.scheduler.state import Finished, Restarting, SchedulerState
from airflow_adaptive._core.scheduler.steps import Step
from tests.lab.conformance.result import (
    DESCRIPTION,
    Comparison,
    NotApplicableError,
    Vector,
    compare,
    compare_error,
    expect_only,
    require_known,
)
from tests.lab.conformance.subjects.conditions import DESIRED, SUFFICIENT, Conditions, Phrase
from tests.lab.conformance.subjects.vector_events import (
    BACKOFF_MS,
    COOLDOWN_S,
    RESOURCE_WAIT_TIMEOUT_S,
    STABILIZATION_S,
    TARGET,
    Handler,
    handler_of,
)
from tests.lab.scenario import HOPELESS, Scenario

_NAMES = {"CreatingExecutionGraph": "Deploying"}
"""Names of the states, by their different names in Flink."""

_JOB_STATUS: Mapping[str, str] = {
    "Created": "INITIALIZING",
    "WaitingForResources": "CREATED",
    "Deploying": "CREATED",
    "Executing": "RUNNING",
    "RestartingLocally": "RUNNING",
    "Restarting": "RESTARTING",
    "StopWithSavepoint": "RUNNING",
    "Failing": "FAILING",
    "Canceling": "CANCELLING",
}
"""Flink's `JobStatus` of each state. The status of a finished job is its outcome."""

_KEYS = {
    *DESCRIPTION,
    "state",
    "event",
    "condition",
    "next_state",
    "job_status",
    "final_job_status",
    "backoff_ms",
    "error",
}


def state_transitions(vector: Vector) -> Iterator[Comparison]:
    """Yield the state classes of `AdaptiveScheduler`."""
    expect_only(vector)
    require_known("key", vector, _KEYS)
    if vector["event"] == "construct":
        yield from compare("state", vector["next_state"], Scenario().state.name)
        return
    conditions = _conditions(vector)
    flink_name = str(vector["state"])
    state = _NAMES.get(flink_name, flink_name)
    if state not in _ENTER:
        raise NotApplicableError(f"unknown state: {flink_name}")
    handle = handler_of(state, vector["event"])
    scenario = _given(state, conditions, vector)
    before = len(scenario.steps)
    handle(scenario, conditions)
    yield from _compare(vector, scenario.state, scenario.steps[before:])


def _conditions(vector: Vector) -> Conditions:
    """Return the conditions. The status of a finished job is a condition, too."""
    texts = [vector.get("condition"), vector.get("job_status") if vector["state"] == "Finished" else None]
    return Conditions(", ".join(filter(None, texts)))


def _compare(vector: Vector, state: SchedulerState, steps: list[Step]) -> Iterator[Comparison]:
    first = next((step for step in steps if step.transition is not None), None)
    expected = vector["next_state"]
    entered = None if first is None else first.state.current
    yield from compare("next state", _NAMES.get(expected, expected), None if first is None else first.state.name)
    if "job_status" in vector:
        yield from compare("job status", vector["job_status"], _job_status(state))
    if "final_job_status" in vector:
        outcome = entered.outcome.value if isinstance(entered, Finished) else None
        yield from compare("final job status", vector["final_job_status"], outcome)
    if "backoff_ms" in vector:
        backoff = entered.backoff.total_seconds() * 1000 if isinstance(entered, Restarting) else None
        yield from compare("backoff", vector["backoff_ms"], backoff)
    if vector.get("error") is not None:
        yield from compare_error(vector["error"], "; ".join(step.decision.reason for step in steps if step.decision))


def _job_status(state: SchedulerState) -> str:
    current = state.current
    return current.outcome.value if isinstance(current, Finished) else _JOB_STATUS[state.name]


# ---- given ----------------------------------------------------------------------------------------------------------


def _given(state: str, conditions: Conditions, vector: Vector) -> Scenario:
    bounds, forever = conditions.find(Phrase.BOUNDS), conditions.mentions(Phrase.FOREVER)
    strategy = {"type": "fixed-delay", "attempts": 10, "delay": vector.get("backoff_ms", BACKOFF_MS) / 1000}
    scenario = Scenario(
        lower=int(bounds[1]) if bounds else 1,
        upper=int(bounds[2]) if bounds else DESIRED + conditions.mentions(Phrase.TARGET_EXCEEDED),
        resource_wait_timeout=RESOURCE_WAIT_TIMEOUT_S
        if vector["event"] == "resource_wait_timeout" and not forever
        else -1,
        resource_stabilization_timeout=0 if conditions.mentions(Phrase.NOT_STABILIZING) else STABILIZATION_S,
        scaling_interval_min=COOLDOWN_S if conditions.mentions(Phrase.COOLDOWN) else 0,
        executing_stabilization_timeout=0,
        max_trigger_delay=BACKOFF_MS / 1000 if vector["event"] == "checkpoint_completed" else 0,
        restart_strategy=strategy if conditions.restarts else "none",
    )
    _ENTER[state](scenario, conditions)
    return scenario


def _running(conditions: Conditions) -> int:
    """Return the number of slots on which the job runs."""
    running = conditions.find(Phrase.RUNNING_WITH)
    return int(running[2]) if running else SUFFICIENT


def _deploying(scenario: Scenario, conditions: Conditions) -> Scenario:
    return scenario.given_waiting(free=_running(conditions)).after(STABILIZATION_S)


def _executing(scenario: Scenario, conditions: Conditions) -> Scenario:
    return _deploying(scenario, conditions).when_slots(held=_running(conditions)).when_plan_activated()


def _restarting(scenario: Scenario, conditions: Conditions) -> Scenario:
    """Restart after a failure, or for a target parallelism."""
    executing = _executing(scenario, conditions)
    if conditions.has_target:
        return executing.apply_without_timers(executing.slots(held=SUFFICIENT, free=TARGET - SUFFICIENT))
    return executing.when_query_failed()


def _finished(scenario: Scenario, conditions: Conditions) -> Scenario:
    """Finish with the outcome of the conditions, by default CANCELED."""
    if conditions.mentions(Phrase.FINISHED):
        return _executing(scenario, conditions).when_completed()
    if conditions.mentions(Phrase.FAILED):
        return _executing(scenario, conditions).when_query_failed(HOPELESS).when_driver_ended()
    if conditions.mentions(Phrase.SUSPENDED):
        return scenario.when_suspended()
    return scenario.when_canceled()


_ENTER: Mapping[str, Handler] = {
    "Created": lambda scenario, _: scenario,
    "WaitingForResources": lambda scenario, _: scenario.given_waiting(),
    "Deploying": _deploying,
    "Executing": _executing,
    "Restarting": _restarting,
    "StopWithSavepoint": lambda scenario, conditions: _executing(scenario, conditions).when_suspended(),
    "Failing": lambda scenario, conditions: _executing(scenario, conditions).when_query_failed(HOPELESS),
    "Canceling": lambda scenario, conditions: _executing(scenario, conditions).when_canceled(),
    "Finished": _finished,
}
"""Bring a new job to each state."""
