"""The state machine: which event leads from which state to which.

A vector's state is reached by a life that leads there, never built; its event is mapped to what happens on Spark. What
counts is the first transition after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from airflow_adaptive.scheduler.events import RequirementsChanged, SchedulingStarted
from airflow_adaptive.scheduler.moves import Step
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import Finished, Restarting
from airflow_adaptive.testing.conformance.situation import DESIRED, SUFFICIENT, Phrase, Situation
from airflow_adaptive.testing.conformance.verdict import (
    Deviation,
    NotApplicableError,
    Vector,
    compare,
    compare_text,
    expect_only,
)
from airflow_adaptive.testing.scenario import HOPELESS, Scenario

_NAMES = {"CreatingExecutionGraph": "Deploying"}
"""States that have another name in Flink."""

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
    "final_job_status",
    "backoff_ms",
    "error",
}

_PATIENCE_ENDS = "resource_wait_timeout"
_PATIENCE_S = 5
_STABILIZATION_S = 10
"""Longer than the patience, so that it is the patience that ends."""
_BACKOFF_MS = 10_000
_TARGET = 3
"""Slots of the parallelism that a rescale is for: more than are held, fewer than desired."""

Act = Callable[[Scenario, Situation], object]


def state_transitions(vector: Vector) -> Iterator[Deviation]:
    """The state classes of `AdaptiveScheduler`."""
    expect_only(vector)
    unknown = sorted(set(vector) - _UNDERSTOOD)
    if unknown:
        raise NotApplicableError(f"not understood: {', '.join(unknown)}")
    if vector["event"] == "construct":
        yield from compare("state", vector["next_state"], Scenario().state.name)
        return
    situation = Situation(vector.get("condition", ""))
    named = str(vector["state"])
    state = _NAMES.get(named, named)
    act = _act(state, vector["event"])
    scenario = _given(state, situation, vector)
    lived = len(scenario.steps)
    act(scenario, situation)
    left = next((step for step in scenario.steps[lived:] if step.transition is not None), None)
    yield from _compare(vector, left, [step.decision.reason for step in scenario.steps[lived:] if step.decision])


def _compare(vector: Vector, left: Step | None, reasons: list[str]) -> Iterator[Deviation]:
    expected = vector["next_state"]
    entered = None if left is None else left.state.current
    yield from compare("next state", _NAMES.get(expected, expected), None if left is None else left.state.name)
    if "final_job_status" in vector:
        outcome = entered.outcome.value if isinstance(entered, Finished) else None
        yield from compare("final job status", vector["final_job_status"], outcome)
    if "backoff_ms" in vector:
        backoff = entered.backoff.total_seconds() * 1000 if isinstance(entered, Restarting) else None
        yield from compare("backoff", vector["backoff_ms"], backoff)
    if "error" in vector:
        yield from compare_text("error", vector["error"].partition(": ")[2], "; ".join(reasons))


# ---- given ----------------------------------------------------------------------------------------------------------


def _given(state: str, situation: Situation, vector: Vector) -> Scenario:
    bounds, for_ever = situation.find(Phrase.BOUNDS), situation.says(Phrase.FOR_EVER)
    strategy = {"type": "fixed-delay", "attempts": 10, "delay": vector.get("backoff_ms", _BACKOFF_MS) / 1000}
    scenario = Scenario(
        lower=int(bounds[1]) if bounds else 1,
        upper=int(bounds[2]) if bounds else DESIRED,
        resource_wait_timeout=_PATIENCE_S if vector["event"] == _PATIENCE_ENDS and not for_ever else -1,
        resource_stabilization_timeout=0 if situation.says(Phrase.NOT_STABILIZING) else _STABILIZATION_S,
        scaling_interval_min=0,
        executing_stabilization_timeout=0,
        max_trigger_delay=0,
        restart_strategy=strategy if situation.restarts else "none",
    )
    _LIFE[state](scenario, situation)
    return scenario


def _running(situation: Situation) -> int:
    """Slots that a running job runs on."""
    running = situation.find(Phrase.RUNNING_WITH)
    return int(running[2]) if running else SUFFICIENT


def _deploying(scenario: Scenario, situation: Situation) -> Scenario:
    return scenario.given_waiting(free=_running(situation)).after(_STABILIZATION_S)


def _executing(scenario: Scenario, situation: Situation) -> Scenario:
    return _deploying(scenario, situation).when_slots(held=_running(situation)).when_in_force()


def _restarting(scenario: Scenario, situation: Situation) -> Scenario:
    """After a failure, or on the way to a target."""
    executing = _executing(scenario, situation)
    if situation.says(Phrase.TARGET) and not situation.says(Phrase.NO_TARGET):
        return executing.unsettled(executing.slots(held=SUFFICIENT, free=_TARGET - SUFFICIENT))
    return executing.when_query_failed()


_LIFE: Mapping[str, Act] = {
    "Created": lambda scenario, _: scenario,
    "WaitingForResources": lambda scenario, _: scenario.given_waiting(),
    "Deploying": _deploying,
    "Executing": _executing,
    "Restarting": _restarting,
    "StopWithSavepoint": lambda scenario, situation: _executing(scenario, situation).when_suspended(),
    "Failing": lambda scenario, situation: _executing(scenario, situation).when_query_failed(HOPELESS),
    "Canceling": lambda scenario, situation: _executing(scenario, situation).when_canceled(),
    "Finished": lambda scenario, _: scenario.when_canceled(),
}

# ---- when -----------------------------------------------------------------------------------------------------------


def _act(state: str, event: str) -> Act:
    act = _IN_STATE.get((state, event)) or _ANYWHERE.get(event)
    if act is None or state not in _LIFE:
        raise NotApplicableError(f"{event} while {state} has no counterpart")
    return act


def _new_resources(scenario: Scenario, situation: Situation) -> None:
    held = scenario.state.held_slots
    scenario.when_slots(held=held, free=situation.slots)
    if situation.says(Phrase.STABILIZING) and situation.says(Phrase.ELAPSED):
        scenario.after(_STABILIZATION_S)


def _resource_wait_timeout(scenario: Scenario, situation: Situation) -> None:
    scenario.when_slots(free=situation.slots)
    scenario.after(_PATIENCE_S)


def _graph_created(scenario: Scenario, situation: Situation) -> None:
    gone = situation.says(Phrase.SLOTS_GONE)
    scenario.when_slots(held=0 if gone else SUFFICIENT).when_in_force()


def _graph_terminal(scenario: Scenario, situation: Situation) -> None:
    """The queries of an executing job end by themselves or with a failure."""
    if situation.says(Phrase.FINISHED):
        scenario.when_completed()
    elif situation.says(Phrase.FAILED):
        scenario.when_query_failed(situation.failure)
    else:
        raise NotApplicableError("queries end by themselves, with a failure, or as told")


def _stop_terminal(scenario: Scenario, situation: Situation) -> None:
    """The queries end while they are being stopped; a driver that has stopped them says so before it ends."""
    if situation.says(Phrase.FAILED):
        _stop_failed(scenario, situation)
        if not situation.says(Phrase.SAVED):
            scenario.when_savepoint_failed()
    elif situation.says(Phrase.FINISHED) and situation.says(Phrase.SAVED):
        scenario.when_savepoint_completed().when_driver_ended()
    else:
        raise NotApplicableError("a driver says that it has stopped its queries before it ends")


def _stop_failed(scenario: Scenario, situation: Situation) -> None:
    if situation.says(Phrase.SAVED):
        scenario.when_savepoint_completed()
    scenario.when_query_failed(situation.failure)
    if situation.says(Phrase.NOT_SAVED):
        scenario.when_savepoint_failed()


def _saved(scenario: Scenario, situation: Situation) -> None:
    scenario.when_savepoint_completed()
    if situation.says(Phrase.FINISHED):
        scenario.when_driver_ended()


def _backoff_elapsed(scenario: Scenario, situation: Situation) -> None:
    """The slots are observed at last, then the backoff ends."""
    there = situation.slots or SUFFICIENT
    if situation.says(Phrase.TARGET) and not situation.says(Phrase.NO_TARGET):
        there = SUFFICIENT if situation.says(Phrase.TARGET_GONE) else _TARGET
    scenario.when_slots(held=SUFFICIENT, free=there - SUFFICIENT).after(_BACKOFF_MS / 1000)


def _new_requirements(scenario: Scenario, situation: Situation) -> None:
    bounds = situation.find(Phrase.BOUNDS)
    if bounds is None:
        raise NotApplicableError("new requirements without bounds")
    changed = dict.fromkeys(scenario.state.requirements, ParallelismRange(int(bounds[3]), int(bounds[4])))
    scenario.when(RequirementsChanged(at=scenario.now, requirements=changed))


_ANYWHERE: Mapping[str, Act] = {
    "start_scheduling": lambda scenario, _: scenario.when(SchedulingStarted(at=scenario.now)),
    "cancel": lambda scenario, _: scenario.when_canceled(),
    "suspend": lambda scenario, _: scenario.when_suspended(with_savepoint=False),
    "stop_with_savepoint": lambda scenario, _: scenario.when_suspended(),
    "global_failure": lambda scenario, situation: scenario.when_query_failed(situation.failure),
    "task_failed": lambda scenario, situation: scenario.when_query_failed(situation.failure),
    "new_resources": _new_resources,
    "new_requirements": _new_requirements,
}

_IN_STATE: Mapping[tuple[str, str], Act] = {
    ("WaitingForResources", _PATIENCE_ENDS): _resource_wait_timeout,
    ("Deploying", "graph_creation_failed"): lambda scenario, situation: scenario.when_query_failed(situation.failure),
    ("Deploying", "graph_created"): _graph_created,
    ("Executing", "graph_terminal"): _graph_terminal,
    ("Executing", "rescale_decision"): lambda scenario, _: scenario.when_slots(held=SUFFICIENT, free=SUFFICIENT),
    ("Restarting", "graph_canceled"): lambda scenario, _: scenario.when_driver_ended(),
    ("Restarting", "graph_canceled_and_backoff_elapsed"): _backoff_elapsed,
    ("Failing", "graph_terminal"): lambda scenario, _: scenario.when_driver_ended(),
    ("Canceling", "graph_terminal"): lambda scenario, _: scenario.when_driver_ended(),
    ("StopWithSavepoint", "graph_terminal"): _stop_terminal,
    ("StopWithSavepoint", "global_failure"): _stop_failed,
    ("StopWithSavepoint", "task_failed"): _stop_failed,
    ("StopWithSavepoint", "savepoint_completed"): _saved,
    ("StopWithSavepoint", "savepoint_failed"): lambda scenario, _: scenario.when_savepoint_failed(),
}
