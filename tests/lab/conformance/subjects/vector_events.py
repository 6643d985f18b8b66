"""Events of the state transition vectors, translated to the events of a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_adaptive._core.scheduler.events import QueryFailed, RequirementsChanged, SchedulingStarted
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Executing, StopWithSavepoint, WaitingForResources
from tests.lab.conformance.result import NotApplicableError
from tests.lab.conformance.subjects.conditions import DESIRED, NONE, SUFFICIENT, Conditions, Phrase
from tests.lab.scenario import Scenario

RESOURCE_WAIT_TIMEOUT_S = 5
COOLDOWN_S = 20
STABILIZATION_S = 10
"""Longer than the resource wait timeout, so that the resource wait timeout expires first."""
BACKOFF_MS = 10_000
TARGET = 3
"""Target parallelism of a rescale: greater than the number of held slots, less than the desired parallelism."""

Handler = Callable[[Scenario, Conditions], object]
"""Applies the event of a vector to a scenario."""


def handler_of(state: str, event: str) -> Handler:
    """Return the handler of an event of a vector.

    Raises:
        NotApplicableError: the event has no counterpart on Spark.
    """
    handler = _IN_STATE.get((state, event)) or _IN_EVERY_STATE.get(event)
    if handler is None:
        raise NotApplicableError(f"{event} in {state} has no counterpart")
    return handler


# ---- slots and requirements -----------------------------------------------------------------------------------------


def _new_resources(scenario: Scenario, conditions: Conditions) -> None:
    if conditions.mentions(Phrase.COOLDOWN) and not conditions.mentions(Phrase.NOT_ELAPSED):
        scenario.after(COOLDOWN_S)
    scenario.when_slots(held=scenario.state.held_slots, free=conditions.slots)
    if conditions.mentions(Phrase.STABILIZING) and conditions.mentions(Phrase.ELAPSED):
        scenario.after(STABILIZATION_S)


def _new_requirements(scenario: Scenario, conditions: Conditions) -> None:
    """Set the bounds of the conditions. Without bounds in the conditions, choose bounds that suit the state."""
    bounds, available = conditions.find(Phrase.BOUNDS), conditions.find(Phrase.SLOTS)
    if available is not None:
        held = scenario.state.held_slots
        scenario.apply_without_timers(scenario.slots(held=held, free=max(int(available[1]) - held, 0)))
    if bounds is not None:
        return _require(scenario, int(bounds[3]), int(bounds[4]))
    match scenario.state.current:
        case Executing():
            raise NotApplicableError("the new requirements of the running job have no bounds")
        case WaitingForResources():
            return _require_available_slots(scenario, conditions)
        case _:
            return _require(scenario, 1, DESIRED + 1)


def _require_available_slots(scenario: Scenario, conditions: Conditions) -> None:
    """Set bounds that the available slots reach or do not reach, for a job that has waited for more slots."""
    scenario.apply_without_timers(scenario.slots(free=min(conditions.slots, SUFFICIENT)))
    enough = conditions.slots == DESIRED
    _require(scenario, 1 if conditions.slots > NONE else SUFFICIENT, SUFFICIENT if enough else DESIRED + 1)


def _require(scenario: Scenario, lower: int, upper: int) -> None:
    changed = dict.fromkeys(scenario.state.requirements, ParallelismRange(lower, upper))
    scenario.when(RequirementsChanged(at=scenario.now, requirements=changed))


def _resource_wait_timeout(scenario: Scenario, conditions: Conditions) -> None:
    scenario.when_slots(free=conditions.slots)
    scenario.after(RESOURCE_WAIT_TIMEOUT_S)


def _rescale_decision(scenario: Scenario, conditions: Conditions) -> None:
    none = conditions.mentions(Phrase.NO_RESOURCES, Phrase.NO_PARALLELISM)
    scenario.when_slots(held=SUFFICIENT, free=NONE if none else SUFFICIENT)


# ---- starting and failing -------------------------------------------------------------------------------------------


def _graph_created(scenario: Scenario, conditions: Conditions) -> None:
    gone = conditions.mentions(Phrase.SLOTS_GONE)
    scenario.when_slots(held=0 if gone else SUFFICIENT).when_plan_activated()


def _enter(scenario: Scenario, conditions: Conditions) -> None:
    """The plan becomes active, but its deployment fails."""
    if not conditions.mentions(Phrase.NOT_DEPLOYED):
        raise NotApplicableError("only a failed deployment changes the state on entry")
    scenario.when_query_failed(conditions.failure)


def _failed(scenario: Scenario, conditions: Conditions) -> None:
    """A query fails. A stale failure belongs to the previous epoch."""
    epoch = scenario.state.epoch - (1 if conditions.mentions(Phrase.STALE) else 0)
    scenario.when(QueryFailed(at=scenario.now, epoch=epoch, failure=conditions.failure))


def _graph_terminal(scenario: Scenario, conditions: Conditions) -> None:
    """The queries of an executing job complete or fail."""
    if conditions.mentions(Phrase.FINISHED):
        scenario.when_completed()
    elif conditions.mentions(Phrase.FAILED):
        scenario.when_query_failed(conditions.failure)
    else:
        raise NotApplicableError("queries only end by completion, by a failure or on request")


def _terminated_after_stop(expected_end: Phrase) -> Handler:
    """Return the handler of the end of a driver that the scheduler has stopped. In Flink, other ends are errors."""

    def handle(scenario: Scenario, conditions: Conditions) -> None:
        if conditions.mentions(Phrase.FINISHED, Phrase.FAILED, Phrase.CANCELED) and not conditions.mentions(
            expected_end
        ):
            raise NotApplicableError("the scheduler does not distinguish how a stopped driver ends")
        scenario.when_driver_ended()

    return handle


# ---- restarting -----------------------------------------------------------------------------------------------------


def _backoff_elapsed(scenario: Scenario, conditions: Conditions) -> None:
    """The scheduler observes the slots, then the backoff elapses."""
    available = conditions.slots or SUFFICIENT
    if conditions.has_target:
        available = TARGET + conditions.beyond_target
    scenario.when_slots(held=SUFFICIENT, free=available - SUFFICIENT).after(BACKOFF_MS / 1000)


# ---- stopping with a savepoint --------------------------------------------------------------------------------------


def _stop_terminal(scenario: Scenario, conditions: Conditions) -> None:
    """The queries end during the stop. The driver reports the savepoint before it ends."""
    if conditions.mentions(Phrase.FAILED):
        _stop_failed(scenario, conditions)
        if isinstance(scenario.state.current, StopWithSavepoint):
            scenario.when_savepoint_failed()
    elif conditions.mentions(Phrase.FINISHED) and conditions.mentions(Phrase.SAVED):
        scenario.when_savepoint_completed().when_driver_ended()
    else:
        raise NotApplicableError("the driver reports the stop of its queries before it ends")


def _stop_failed(scenario: Scenario, conditions: Conditions) -> None:
    """A query fails. If the conditions state how the failure is handled, the outcome of the savepoint is known."""
    handled = conditions.mentions(Phrase.RESTART, Phrase.NO_RESTART, Phrase.SAVEPOINT_KNOWN)
    pending = conditions.mentions(Phrase.SAVEPOINT_PENDING, Phrase.NOT_SAVED, Phrase.REMEMBERED)
    if conditions.mentions(Phrase.SAVED) or (handled and not pending):
        scenario.when_savepoint_completed()
    _failed(scenario, conditions)
    if conditions.mentions(Phrase.NOT_SAVED):
        scenario.when_savepoint_failed()


def _saved(scenario: Scenario, conditions: Conditions) -> None:
    if conditions.mentions(Phrase.REMEMBERED):
        _failed(scenario, conditions)
    scenario.when_savepoint_completed()
    if conditions.mentions(Phrase.FINISHED) and not conditions.mentions(Phrase.NOT_FINISHED):
        scenario.when_driver_ended()


def _not_saved(scenario: Scenario, conditions: Conditions) -> None:
    if conditions.mentions(Phrase.REMEMBERED, Phrase.FAILED):
        _failed(scenario, conditions)
    scenario.when_savepoint_failed()


# ---- committed batches ----------------------------------------------------------------------------------------------


def _checkpoint_completed(scenario: Scenario, conditions: Conditions) -> None:
    """A batch commits after new slots made a rescale worthwhile. The rescale only waits for the commit."""
    if isinstance(scenario.state.current, Executing):
        scenario.when_slots(held=scenario.state.held_slots, free=conditions.slots)
    scenario.when_committed()


def _checkpoint_failed(scenario: Scenario, conditions: Conditions) -> None:
    """Do nothing, because in Spark a failed batch fails its query."""
    if isinstance(scenario.state.current, Executing) and conditions.text:
        raise NotApplicableError("the vectors of rescale_on_checkpoint cover failed batches")


_IN_EVERY_STATE: Mapping[str, Handler] = {
    "query_status": lambda _scenario, _conditions: None,
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

_IN_STATE: Mapping[tuple[str, str], Handler] = {
    ("WaitingForResources", "resource_wait_timeout"): _resource_wait_timeout,
    ("Deploying", "graph_creation_failed"): lambda scenario, conditions: scenario.when_query_failed(conditions.failure),
    ("Deploying", "graph_created"): _graph_created,
    ("Executing", "enter"): _enter,
    ("Executing", "graph_terminal"): _graph_terminal,
    ("Executing", "rescale_decision"): _rescale_decision,
    ("Restarting", "graph_terminal"): _terminated_after_stop(Phrase.CANCELED),
    ("Restarting", "graph_canceled"): lambda scenario, _: scenario.when_driver_ended(),
    ("Restarting", "graph_canceled_and_backoff_elapsed"): _backoff_elapsed,
    ("Failing", "graph_terminal"): _terminated_after_stop(Phrase.FAILED),
    ("Canceling", "graph_terminal"): _terminated_after_stop(Phrase.CANCELED),
    ("StopWithSavepoint", "graph_terminal"): _stop_terminal,
    ("StopWithSavepoint", "global_failure"): _stop_failed,
    ("StopWithSavepoint", "task_failed"): _stop_failed,
    ("StopWithSavepoint", "savepoint_completed"): _saved,
    ("StopWithSavepoint", "savepoint_failed"): _not_saved,
}
