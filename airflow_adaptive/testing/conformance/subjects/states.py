"""The state machine: which event leads from which state to which.

A vector's state is reached by a life that leads there, never built; its event is mapped to what happens on Spark. What
counts is the first transition after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_adaptive.scheduler.state import (
    Canceling,
    Created,
    Current,
    Deploying,
    Executing,
    Failing,
    Finished,
    Restarting,
    RestartingLocally,
    SchedulerState,
    StopWithSavepoint,
    WaitingForResources,
)
from airflow_adaptive.scheduler.state_transitions import Step
from airflow_adaptive.testing.conformance.result import (
    Deviation,
    NotApplicableError,
    Vector,
    compare,
    compare_text,
    expect_only,
)
from airflow_adaptive.testing.conformance.subjects.conditions import DESIRED, SUFFICIENT, Phrase, Situation
from airflow_adaptive.testing.conformance.subjects.vector_events import (
    BACKOFF_MS,
    COOLDOWN_S,
    PATIENCE_S,
    STABILIZATION_S,
    TARGET,
    Act,
    act_of,
)
from airflow_adaptive.testing.scenario import HOPELESS, Scenario

_NAMES = {"CreatingExecutionGraph": "Deploying"}
"""States that have another name in Flink."""

_JOB_STATUS: Mapping[type[Current], str] = {
    Created: "INITIALIZING",
    WaitingForResources: "CREATED",
    Deploying: "CREATED",
    Executing: "RUNNING",
    RestartingLocally: "RUNNING",
    Restarting: "RESTARTING",
    StopWithSavepoint: "RUNNING",
    Failing: "FAILING",
    Canceling: "CANCELLING",
}
"""Flink's `JobStatus` of each state; a finished job's is its outcome."""

_UNDERSTOOD = {
    "id",
    "source",
    "notes",
    "verified",
    "uncertain",
    "state",
    "event",
    "condition",
    "next_state",
    "job_status",
    "final_job_status",
    "backoff_ms",
    "error",
}


def state_transitions(vector: Vector) -> Iterator[Deviation]:
    """The state classes of `AdaptiveScheduler`."""
    expect_only(vector)
    unknown = sorted(set(vector) - _UNDERSTOOD)
    if unknown:
        raise NotApplicableError(f"not understood: {', '.join(unknown)}")
    if vector["event"] == "construct":
        yield from compare("state", vector["next_state"], Scenario().state.name)
        return
    situation = _situation(vector)
    named = str(vector["state"])
    state = _NAMES.get(named, named)
    if state not in _LIFE:
        raise NotApplicableError(f"there is no state {named}")
    act = act_of(state, vector["event"])
    scenario = _given(state, situation, vector)
    lived = len(scenario.steps)
    act(scenario, situation)
    yield from _compare(vector, scenario.state, scenario.steps[lived:])


def _situation(vector: Vector) -> Situation:
    """The condition; a finished job's status says how it ended."""
    conditions = [vector.get("condition"), vector.get("job_status") if vector["state"] == "Finished" else None]
    return Situation(", ".join(filter(None, conditions)))


def _compare(vector: Vector, state: SchedulerState, steps: list[Step]) -> Iterator[Deviation]:
    left = next((step for step in steps if step.transition is not None), None)
    expected = vector["next_state"]
    entered = None if left is None else left.state.current
    yield from compare("next state", _NAMES.get(expected, expected), None if left is None else left.state.name)
    if "job_status" in vector:
        yield from compare("job status", vector["job_status"], _job_status(state))
    if "final_job_status" in vector:
        outcome = entered.outcome.value if isinstance(entered, Finished) else None
        yield from compare("final job status", vector["final_job_status"], outcome)
    if "backoff_ms" in vector:
        backoff = entered.backoff.total_seconds() * 1000 if isinstance(entered, Restarting) else None
        yield from compare("backoff", vector["backoff_ms"], backoff)
    if vector.get("error") is not None:
        text = vector["error"].partition(": ")[2] or vector["error"]
        yield from compare_text("error", text, "; ".join(step.decision.reason for step in steps if step.decision))


def _job_status(state: SchedulerState) -> str:
    current = state.current
    return current.outcome.value if isinstance(current, Finished) else _JOB_STATUS[type(current)]


# ---- given ----------------------------------------------------------------------------------------------------------


def _given(state: str, situation: Situation, vector: Vector) -> Scenario:
    bounds, for_ever = situation.find(Phrase.BOUNDS), situation.says(Phrase.FOR_EVER)
    strategy = {"type": "fixed-delay", "attempts": 10, "delay": vector.get("backoff_ms", BACKOFF_MS) / 1000}
    scenario = Scenario(
        lower=int(bounds[1]) if bounds else 1,
        upper=int(bounds[2]) if bounds else DESIRED,
        resource_wait_timeout=PATIENCE_S if vector["event"] == "resource_wait_timeout" and not for_ever else -1,
        resource_stabilization_timeout=0 if situation.says(Phrase.NOT_STABILIZING) else STABILIZATION_S,
        scaling_interval_min=COOLDOWN_S if situation.says(Phrase.COOLDOWN) else 0,
        executing_stabilization_timeout=0,
        max_trigger_delay=BACKOFF_MS / 1000 if vector["event"] == "checkpoint_completed" else 0,
        restart_strategy=strategy if situation.restarts else "none",
    )
    _LIFE[state](scenario, situation)
    return scenario


def _running(situation: Situation) -> int:
    """Slots that a running job runs on."""
    running = situation.find(Phrase.RUNNING_WITH)
    return int(running[2]) if running else SUFFICIENT


def _deploying(scenario: Scenario, situation: Situation) -> Scenario:
    return scenario.given_waiting(free=_running(situation)).after(STABILIZATION_S)


def _executing(scenario: Scenario, situation: Situation) -> Scenario:
    return _deploying(scenario, situation).when_slots(held=_running(situation)).when_plan_activated()


def _restarting(scenario: Scenario, situation: Situation) -> Scenario:
    """After a failure, or on the way to a target."""
    executing = _executing(scenario, situation)
    if situation.says(Phrase.TARGET) and not situation.says(Phrase.NO_TARGET):
        return executing.unsettled(executing.slots(held=SUFFICIENT, free=TARGET - SUFFICIENT))
    return executing.when_query_failed()


def _finished(scenario: Scenario, situation: Situation) -> Scenario:
    """Canceled unless told otherwise."""
    if situation.says(Phrase.FINISHED):
        return _executing(scenario, situation).when_completed()
    if situation.says(Phrase.FAILED):
        return _executing(scenario, situation).when_query_failed(HOPELESS).when_driver_ended()
    if situation.says(Phrase.SUSPENDED):
        return scenario.when_suspended()
    return scenario.when_canceled()


_LIFE: Mapping[str, Act] = {
    "Created": lambda scenario, _: scenario,
    "WaitingForResources": lambda scenario, _: scenario.given_waiting(),
    "Deploying": _deploying,
    "Executing": _executing,
    "Restarting": _restarting,
    "StopWithSavepoint": lambda scenario, situation: _executing(scenario, situation).when_suspended(),
    "Failing": lambda scenario, situation: _executing(scenario, situation).when_query_failed(HOPELESS),
    "Canceling": lambda scenario, situation: _executing(scenario, situation).when_canceled(),
    "Finished": _finished,
}
