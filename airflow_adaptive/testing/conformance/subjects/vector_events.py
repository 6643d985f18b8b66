"""What happens in a state transition vector, as it happens on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_adaptive.scheduler.events import QueryFailed, RequirementsChanged, SchedulingStarted
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.state import Executing, WaitingForResources
from airflow_adaptive.testing.conformance.result import NotApplicableError
from airflow_adaptive.testing.conformance.subjects.conditions import DESIRED, NONE, SUFFICIENT, Phrase, Situation
from airflow_adaptive.testing.scenario import Scenario

PATIENCE_S = 5
COOLDOWN_S = 20
STABILIZATION_S = 10
"""Longer than the patience, so that it is the patience that ends."""
BACKOFF_MS = 10_000
TARGET = 3
"""Slots of the parallelism that a rescale is for: more than are held, fewer than desired."""

Act = Callable[[Scenario, Situation], object]


def act_of(state: str, event: str) -> Act:
    """What the event of a vector is here.

    Raises:
        NotApplicableError: nothing like it happens on Spark.
    """
    act = _IN_STATE.get((state, event)) or _ANYWHERE.get(event)
    if act is None:
        raise NotApplicableError(f"{event} while {state} has no counterpart")
    return act


# ---- slots and requirements -----------------------------------------------------------------------------------------


def _new_resources(scenario: Scenario, situation: Situation) -> None:
    if situation.says(Phrase.COOLDOWN) and not situation.says(Phrase.NOT_ELAPSED):
        scenario.after(COOLDOWN_S)
    scenario.when_slots(held=scenario.state.held_slots, free=situation.slots)
    if situation.says(Phrase.STABILIZING) and situation.says(Phrase.ELAPSED):
        scenario.after(STABILIZATION_S)


def _new_requirements(scenario: Scenario, situation: Situation) -> None:
    """The bounds that are told; without any, others that the state may notice or not."""
    bounds, there = situation.find(Phrase.BOUNDS), situation.find(Phrase.SLOTS)
    if there is not None:
        held = scenario.state.held_slots
        scenario.unsettled(scenario.slots(held=held, free=max(int(there[1]) - held, 0)))
    if bounds is not None:
        return _require(scenario, int(bounds[3]), int(bounds[4]))
    match scenario.state.current:
        case Executing():
            raise NotApplicableError("new requirements of a running job without bounds")
        case WaitingForResources():
            return _require_what_is_there(scenario, situation)
        case _:
            return _require(scenario, 1, DESIRED + 1)


def _require_what_is_there(scenario: Scenario, situation: Situation) -> None:
    """A job that has waited for more than there is comes to want just that, or still more."""
    scenario.unsettled(scenario.slots(free=min(situation.slots, SUFFICIENT)))
    enough = situation.slots == DESIRED
    _require(scenario, 1 if situation.slots > NONE else SUFFICIENT, SUFFICIENT if enough else DESIRED + 1)


def _require(scenario: Scenario, lower: int, upper: int) -> None:
    changed = dict.fromkeys(scenario.state.requirements, ParallelismRange(lower, upper))
    scenario.when(RequirementsChanged(at=scenario.now, requirements=changed))


def _resource_wait_timeout(scenario: Scenario, situation: Situation) -> None:
    scenario.when_slots(free=situation.slots)
    scenario.after(PATIENCE_S)


def _rescale_decision(scenario: Scenario, situation: Situation) -> None:
    scenario.when_slots(held=SUFFICIENT, free=NONE if situation.says(Phrase.NO_RESOURCES) else SUFFICIENT)


# ---- starting and failing -------------------------------------------------------------------------------------------


def _graph_created(scenario: Scenario, situation: Situation) -> None:
    gone = situation.says(Phrase.SLOTS_GONE)
    scenario.when_slots(held=0 if gone else SUFFICIENT).when_plan_activated()


def _enter(scenario: Scenario, situation: Situation) -> None:
    """A plan that comes into force and can't be run after all."""
    if not situation.says(Phrase.NOT_DEPLOYED):
        raise NotApplicableError("nothing else happens by itself in a state that was entered")
    scenario.when_query_failed(situation.failure)


def _failed(scenario: Scenario, situation: Situation) -> None:
    """A failure; one of a driver that is gone if it is not accepted."""
    epoch = scenario.state.epoch - (1 if situation.says(Phrase.STALE) else 0)
    scenario.when(QueryFailed(at=scenario.now, epoch=epoch, failure=situation.failure))


def _graph_terminal(scenario: Scenario, situation: Situation) -> None:
    """The queries of an executing job end by themselves or with a failure."""
    if situation.says(Phrase.FINISHED):
        scenario.when_completed()
    elif situation.says(Phrase.FAILED):
        scenario.when_query_failed(situation.failure)
    else:
        raise NotApplicableError("queries end by themselves, with a failure, or as told")


def _stopped_graph_terminal(usual: Phrase) -> Act:
    """A driver that was told to end is gone; in Flink there is a usual way for that, and ways that are errors."""

    def act(scenario: Scenario, situation: Situation) -> None:
        if situation.says(Phrase.FINISHED, Phrase.FAILED, Phrase.CANCELED) and not situation.says(usual):
            raise NotApplicableError("a driver that was told to end is gone, no matter how")
        scenario.when_driver_ended()

    return act


# ---- restarting -----------------------------------------------------------------------------------------------------


def _backoff_elapsed(scenario: Scenario, situation: Situation) -> None:
    """The slots are observed at last, then the backoff ends."""
    there = situation.slots or SUFFICIENT
    if situation.says(Phrase.TARGET) and not situation.says(Phrase.NO_TARGET):
        there = SUFFICIENT if situation.says(Phrase.TARGET_GONE) else TARGET
    scenario.when_slots(held=SUFFICIENT, free=there - SUFFICIENT).after(BACKOFF_MS / 1000)


# ---- stopping with a savepoint --------------------------------------------------------------------------------------


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
    _failed(scenario, situation)
    if situation.says(Phrase.NOT_SAVED):
        scenario.when_savepoint_failed()


def _saved(scenario: Scenario, situation: Situation) -> None:
    if situation.says(Phrase.REMEMBERED):
        _failed(scenario, situation)
    scenario.when_savepoint_completed()
    if situation.says(Phrase.FINISHED) and not situation.says(Phrase.NOT_FINISHED):
        scenario.when_driver_ended()


def _not_saved(scenario: Scenario, situation: Situation) -> None:
    if situation.says(Phrase.REMEMBERED, Phrase.FAILED):
        _failed(scenario, situation)
    scenario.when_savepoint_failed()


# ---- committed batches ----------------------------------------------------------------------------------------------


def _checkpoint_completed(scenario: Scenario, situation: Situation) -> None:
    """A commit after slots have come that are worth a rescale, which waits for nothing else."""
    if isinstance(scenario.state.current, Executing):
        scenario.when_slots(held=scenario.state.held_slots, free=situation.slots)
    scenario.when_committed()


def _checkpoint_failed(scenario: Scenario, situation: Situation) -> None:
    """Do nothing: in Spark no batch fails without its query."""
    if isinstance(scenario.state.current, Executing) and situation.condition:
        raise NotApplicableError("failed batches are covered by the vectors of rescale_on_checkpoint")


_ANYWHERE: Mapping[str, Act] = {
    "query_status": lambda _scenario, _situation: None,
    "start_scheduling": lambda scenario, _: scenario.when(SchedulingStarted(at=scenario.now)),
    "cancel": lambda scenario, _: scenario.when_canceled(),
    "suspend": lambda scenario, _: scenario.when_suspended(),
    "stop_with_savepoint": lambda scenario, _: scenario.when_suspended(),
    "global_failure": _failed,
    "task_failed": _failed,
    "new_resources": _new_resources,
    "new_requirements": _new_requirements,
    "checkpoint_completed": _checkpoint_completed,
    "checkpoint_failed": _checkpoint_failed,
}

_IN_STATE: Mapping[tuple[str, str], Act] = {
    ("WaitingForResources", "resource_wait_timeout"): _resource_wait_timeout,
    ("Deploying", "graph_creation_failed"): lambda scenario, situation: scenario.when_query_failed(situation.failure),
    ("Deploying", "graph_created"): _graph_created,
    ("Executing", "enter"): _enter,
    ("Executing", "graph_terminal"): _graph_terminal,
    ("Executing", "rescale_decision"): _rescale_decision,
    ("Restarting", "graph_terminal"): _stopped_graph_terminal(Phrase.CANCELED),
    ("Restarting", "graph_canceled"): lambda scenario, _: scenario.when_driver_ended(),
    ("Restarting", "graph_canceled_and_backoff_elapsed"): _backoff_elapsed,
    ("Failing", "graph_terminal"): _stopped_graph_terminal(Phrase.FAILED),
    ("Canceling", "graph_terminal"): _stopped_graph_terminal(Phrase.CANCELED),
    ("StopWithSavepoint", "graph_terminal"): _stop_terminal,
    ("StopWithSavepoint", "global_failure"): _stop_failed,
    ("StopWithSavepoint", "task_failed"): _stop_failed,
    ("StopWithSavepoint", "savepoint_completed"): _saved,
    ("StopWithSavepoint", "savepoint_failed"): _not_saved,
}
