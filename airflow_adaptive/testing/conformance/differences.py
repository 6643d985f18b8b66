"""Deliberate differences from Flink, as rules that explain deviations.

A rule evaluates the content of a vector and the deviation, never the id of the vector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_adaptive.testing.conformance.result import Deviation, Vector
from airflow_adaptive.testing.conformance.subjects.conditions import Conditions, Phrase

Rule = Callable[[Vector, Deviation], bool]
"""Returns whether a difference explains a deviation of a vector."""

_MAX_DELAY = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"
_HISTORY_SIZE = "web.adaptive-scheduler.rescale-history.size"

_SUPPRESSED = "recovery is suppressed by"

_LEAST_MAX_DELAY_MS = 10_000

_FIRST_OVERFLOW = 92
"""Number of the first consecutive attempt at which Flink's default backoff overflows."""


def _in(state: str, *events: str, actual: Collection[object] | None = None) -> Rule:
    """Explain deviations of events in a state, by default with any actual value."""
    return lambda vector, deviation: (
        vector["state"] == state and vector["event"] in events and (actual is None or deviation.actual in actual)
    )


def _error(text: str) -> Rule:
    """Explain an error of the scheduler that contains the text."""
    return lambda _, deviation: deviation.what == "error" and text in str(deviation.actual)


def _grows_only(vector: Vector, deviation: Deviation) -> bool:
    current, new = vector["current"], vector["new"]
    grown = sum(new.values()) - sum(current.values())
    shrinks = any(new[name] < parallelism for name, parallelism in current.items())
    return not shrinks and grown >= vector["min_parallelism_increase"] and deviation.actual is True


def _waits_for_slots(terminated_reason: str) -> Rule:
    """Explain a rescale that continues after the loss of slots, where Flink's rescale has ended with the reason."""

    def explains(vector: Vector, deviation: Deviation) -> bool:
        ended_by = vector["expected"].get("latest", {}).get("terminated_reason") == terminated_reason
        lost = any("kill" in step or "terminate" in step for step in vector["steps"])
        return ended_by and lost and deviation.actual is None

    return explains


def _too_few_slots(vector: Vector, _: Deviation) -> bool:
    offered = sum(vector["tms"].values()) if "tms" in vector else len(vector["slots"])
    return offered < len(vector["requests"])


def _starts_with_fewer_slots_than_available(vector: Vector, deviation: Deviation) -> bool:
    return deviation.actual == "Deploying" and Conditions(vector["condition"]).mentions(Phrase.TARGET_EXCEEDED)


def _suppressed(_: Vector, deviation: Deviation) -> bool:
    texts = (str(text).casefold() for text in (deviation.expected, deviation.actual))
    return deviation.what == "error" and all(_SUPPRESSED in text for text in texts)


def _plain_number(vector: Vector, deviation: Deviation) -> bool:
    return (
        isinstance(deviation.expected, int)
        and deviation.actual == deviation.expected * 1000
        and str(deviation.expected) in map(str, vector["config"].values())
    )


DIFFERENCES: Mapping[str, Mapping[str, Rule]] = {
    "state_transitions": {
        "a rescale is decided on the slots of the same event, so it always has resources; without resources, Flink's scheduler fails,"
        " and this scheduler keeps its state or waits for slots": lambda vector, deviation: (
            _in("Executing", "rescale_decision")(vector, deviation) and deviation.actual != "Restarting"
        ),
        "a job that restarts for a rescale starts with the parallelism of the rescale, even if more slots have become available"
        " (FLINK-40379); Flink waits for resources again": _starts_with_fewer_slots_than_available,
        "a failure in Deploying is subject to the restart strategy; Flink fails the job (FLINK-22692)": _in(
            "CreatingExecutionGraph", "global_failure", "task_failed", "graph_creation_failed"
        ),
        "the job waits for missing slots until deploy_timeout, then the scheduler creates a new plan": _in(
            "CreatingExecutionGraph", "graph_created"
        ),
        "below its lower bounds the job fails when resource_wait_timeout elapses; Flink fails the job one state later": (
            lambda vector, deviation: (
                _in("WaitingForResources", "resource_wait_timeout")(vector, deviation)
                and (deviation.actual == "Finished" or deviation.what == "error")
            )
        ),
        "the error contains the restart strategy under the name of the option, and the failure": _suppressed,
        "a failed deployment fails the query immediately; Flink marks the vertex as failed first": _in(
            "Executing", "enter", actual=("Restarting", "Failing")
        ),
        "a failed query is always subject to the restart strategy": lambda vector, deviation: (
            _in("Executing", "graph_terminal")(vector, deviation) and deviation.actual != "FINISHED"
        ),
        "a job that was stopped with a savepoint is SUSPENDED, because it can be resumed": lambda vector, deviation: (
            vector["state"] == "StopWithSavepoint" and deviation.expected == "FINISHED"
        ),
        "a job that does not run is suspended immediately, because it has no state to save": lambda vector, _: (
            vector["event"] == "stop_with_savepoint" and vector["next_state"] is None
        ),
        "the scheduler suspends a running job at a batch boundary; Flink stops the job immediately": lambda vector, _: (
            vector["event"] == "suspend"
        ),
        "a job below its lower bounds stops and waits (FLIP-291), unless below_lower_bound is keep_running": (
            lambda vector, deviation: (
                _in("Executing", "new_requirements")(vector, deviation) and deviation.expected is None
            )
        ),
        "an event without a meaning in a state is ignored and reported as a decision; Flink raises an exception": (
            lambda vector, deviation: deviation.what == "error" and vector["next_state"] is None
        ),
    },
    "rescale_on_checkpoint": {
        "in Spark, a failed batch fails its query, so max_failed_batches only affects the default of max_trigger_delay": (
            lambda vector, _: any(event["event"] == "checkpoint_failed" for event in vector["events"])
        ),
    },
    "rescaling_controller": {
        "the minimum increase applies to the sum over all vertices (FLIP-160), not to each vertex": _grows_only,
    },
    "restart_strategies": {
        "the backoff stays at its maximum; Flink's backoff overflows from the 92nd attempt on": lambda vector, deviation: (
            deviation.what.startswith("backoff") and len(vector["steps"]) >= _FIRST_OVERFLOW
        ),
    },
    "restart_strategy_loader": {
        "a streaming query always has a checkpoint, so a job restarts by default": lambda vector, deviation: (
            not vector.get("checkpointing") and deviation.actual == "ExponentialDelayRestartBackoffTimeStrategy"
        ),
    },
    "apply_requirements": {
        "the scheduler replaces -1 before it applies the requirements; Flink stores -1 and crashes": lambda vector, _: (
            any(-1 in bounds.values() for bounds in vector["requirements"].values())
        ),
        "the scheduler only applies complete and valid requirements": lambda vector, deviation: (
            deviation.what == "error" and vector["requirements"].keys() != vector["current"].keys()
        ),
    },
    "slot_to_tm": {
        "the scheduler assigns slots only when all are available, in every mode; Flink's default scheduler only in TASKS": (
            _too_few_slots
        ),
    },
    "vertex_parallelism_store": {
        "the maximum parallelism never changes, because it is the number of state partitions in the checkpoint": (
            lambda _, deviation: deviation.what == "can_rescale_max"
        ),
    },
    "legacy_scaling_interval": {
        "the scheduler refuses the same configuration, with the names of its own options": lambda vector, deviation: (
            bool(deviation.expected) and _error("scaling_interval_max")(vector, deviation)
        ),
    },
    "requirements_query": {
        "a reactive job ignores new bounds and reports the reason; the REST API refuses the request": lambda vector, deviation: (
            deviation.what == "error" and bool(vector.get("scheduler_mode"))
        ),
    },
    "rescale_timeline": {
        "a job that has run before waits for slots without a timeout; Flink's job fails when its timeout elapses": (
            _waits_for_slots("EXCEPTION_OCCURRED")
        ),
        "the loss of slots does not count as a failure for the restart strategy; the job waits for new slots": (
            _waits_for_slots("JOB_FAILED")
        ),
    },
    "settings": {
        "the unit of a plain number is the second, also with Flink's option names; in Flink the unit is the millisecond": (
            _plain_number
        ),
        "a rescale always waits for a committed batch; the default of max_trigger_delay is at least 10 s": (
            lambda vector, deviation: (
                deviation.what == "rescale_trigger_max_delay_ms"
                and _MAX_DELAY not in vector["config"]
                and deviation.actual == _LEAST_MAX_DELAY_MS
            )
        ),
        "the rescale history is always enabled and survives restarts": lambda vector, deviation: (
            (deviation.what == "rescale_history_max" and deviation.expected == 0)
            or _error(_HISTORY_SIZE)(vector, deviation)
        ),
        "scaling-interval.max has an effect, so it must be greater than scaling-interval.min": _error(
            "scaling_interval_max"
        ),
    },
}
"""The rules of each area, by the human-readable reason of the difference."""


def reason_for(area: str, vector: Vector, deviation: Deviation) -> str | None:
    """Return the reason for a deviation, None if no rule explains the deviation."""
    if vector.get("uncertain"):
        return "the expectation is not confirmed on Flink"
    rules = DIFFERENCES.get(area, {})
    return next((reason for reason, explains in rules.items() if explains(vector, deviation)), None)
