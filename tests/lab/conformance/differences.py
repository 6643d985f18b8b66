"""Deliberate differences from Flink, as rules that explain deviations.

A rule evaluates the content of a vector and the deviation, never the id of the vector. A rule explains exactly one result for each
expectation, so a wrong result of the scheduler is not excused by a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_adaptive._core.scheduler.config.options import DEFAULTS
from tests.lab.conformance.result import Comparison, Vector
from tests.lab.conformance.subjects.conditions import Conditions, Phrase

Condition = Callable[[Vector], bool]
"""Returns whether a difference concerns a vector."""

Rule = Callable[[Vector, Comparison], bool]
"""Returns whether a difference explains a deviation of a vector."""

_MAX_DELAY = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"
_HISTORY_SIZE = "web.adaptive-scheduler.rescale-history.size"

_LEAST_MAX_DELAY_MS = 10_000

_FIRST_OVERFLOW = 92
"""Number of the first consecutive attempt at which Flink's default backoff overflows."""

_WITHOUT_QUERIES = ("Created", "WaitingForResources", "CreatingExecutionGraph")
"""States of Flink in which a job has no query that could be saved."""

_NOT_ENOUGH = re.compile(
    r"not enough resources: have \d+ slot\(s\), need at least \d+ \(vertex '\w+' at least \d+\): add workers, or declare lower bounds"
    r" or smaller executors"
)
_INCOMPLETE = re.compile(
    r"resource requirements: The request is incomplete, missing job vertex \[\w+\] resource requirements\."
)
_INTERVALS = re.compile(r"scaling_interval_max \(\d+ s\) must be longer than scaling_interval_min \(\d+ s\)")


def _when(condition: Condition, results: Mapping[str, object]) -> Rule:
    """Explain the deviations of some vectors that have exactly these results; a pattern stands for the texts that match it."""
    return lambda vector, deviation: (
        deviation.what in results and condition(vector) and _is(results[deviation.what], deviation.actual)
    )


def _is(value: object, actual: object) -> bool:
    if isinstance(value, re.Pattern):
        return isinstance(actual, str) and value.fullmatch(actual) is not None
    return type(actual) is type(value) and actual == value


def _always(_: Vector) -> bool:
    return True


def _in(state: str, *events: str, flink: str | None = None) -> Condition:
    """Concern events in a state, after which Flink enters any state or a certain state."""
    return lambda vector: (
        vector["state"] == state and vector["event"] in events and flink in (None, vector["next_state"])
    )


def _error(pattern: str) -> Rule:
    """Explain an error of the scheduler that matches the pattern."""
    return _when(_always, {"error": re.compile(pattern)})


def _failed_deployment(vector: Vector, deviation: Comparison) -> bool:
    entered = "Restarting" if Conditions(vector.get("condition") or "").restarts else "Failing"
    return _when(_in("Executing", "enter"), {"next state": entered})(vector, deviation)


def _suspend(vector: Vector, deviation: Comparison) -> bool:
    """Explain that a job does not end immediately: it stops its queries, or continues to end."""
    entered = {"Executing": "StopWithSavepoint", "StopWithSavepoint": None, "Canceling": None, "Failing": None}
    if vector["event"] != "suspend" or vector["state"] not in entered:
        return False
    return _when(_always, {"next state": entered[vector["state"]], "final job status": None})(vector, deviation)


def _no_meaning(vector: Vector, deviation: Comparison) -> bool:
    is_ignored = vector["next_state"] is None and deviation.what == "error"
    return is_ignored and _is(re.compile(rf"\w+ ignored in the state {vector['state']}"), deviation.actual)


def _grows_only(vector: Vector) -> bool:
    current, new = vector["current"], vector["new"]
    grown = sum(new.values()) - sum(current.values())
    shrinks = any(new[name] < parallelism for name, parallelism in current.items())
    least = vector.get("min_parallelism_increase")
    return least is not None and not shrinks and grown >= least


def _waits_for_slots(terminated_reason: str) -> Rule:
    """Explain a rescale that continues after the loss of slots, where Flink's rescale has ended with the reason."""

    def is_ended_in_flink(vector: Vector) -> bool:
        ended_by = vector["expected"].get("latest", {}).get("terminated_reason") == terminated_reason
        return ended_by and any("kill" in step or "terminate" in step for step in vector["steps"])

    return _when(is_ended_in_flink, {"latest terminated_reason": None, "latest terminal_state": None})


def _too_few_slots(vector: Vector) -> bool:
    offered = sum(vector["tms"].values()) if "tms" in vector else len(vector["slots"])
    return offered < len(vector["requests"])


def _completed_batches(vector: Vector, deviation: Comparison) -> bool:
    """Explain that committed batches are the only triggers."""
    what, _, number = deviation.what.rpartition(" ")
    completed = [event["event"] for event in vector["events"][: int(number)]].count("checkpoint_completed")
    return what == "triggers after event" and _is(completed, deviation.actual)


def _largest_backoff(vector: Vector, deviation: Comparison) -> bool:
    is_overflow = deviation.what.startswith("backoff") and len(vector["steps"]) >= _FIRST_OVERFLOW
    return is_overflow and deviation.actual == [vector["params"]["max_backoff_ms"]]


def _replaced_defaults(vector: Vector, deviation: Comparison) -> bool:
    """Explain that -1 is replaced by 1 as the lower bound, and by the declared upper bound."""
    declared: Mapping[str, Any] = vector["current"]
    result = {
        name: {
            "lower": 1 if bounds["lower"] == -1 else bounds["lower"],
            "upper": declared[name]["upper"] if bounds["upper"] == -1 else bounds["upper"],
            "max": declared[name]["max"],
        }
        for name, bounds in vector["requirements"].items()
    }
    return _when(lambda vector: vector["expected"].get("result") != result, {"result": result})(vector, deviation)


def _plain_number(vector: Vector, deviation: Comparison) -> bool:
    return (
        isinstance(deviation.expected, int)
        and deviation.actual == deviation.expected * 1000
        and str(deviation.expected) in map(str, vector["config"].values())
    )


def _history(vector: Vector, deviation: Comparison) -> bool:
    kept = _when(
        lambda vector: vector["expected"].get("rescale_history_max") == 0,
        {"rescale_history_max": DEFAULTS.history_size},
    )
    refused = _error(rf"{re.escape(_HISTORY_SIZE)} should have a value of 1 or higher, not '0'")
    return kept(vector, deviation) or refused(vector, deviation)


DIFFERENCES: Mapping[str, Mapping[str, Rule]] = {
    "state_transitions": {
        "a rescale is decided on the slots of the same event, so it always has resources; without resources, Flink's scheduler fails,"
        " and this scheduler keeps its state or waits for slots": _when(
            lambda vector: _in("Executing", "rescale_decision")(vector) and vector["next_state"] != "Restarting",
            {"next state": None, "error": ""},
        ),
        "a job that restarts for a rescale starts with the parallelism of the rescale, even if more slots have become available"
        " (FLINK-40379); Flink waits for resources again": _when(
            lambda vector: Conditions(vector["condition"]).mentions(Phrase.TARGET_EXCEEDED), {"next state": "Deploying"}
        ),
        "a failure in Deploying is subject to the restart strategy; Flink fails the job (FLINK-22692)": _when(
            _in("CreatingExecutionGraph", "global_failure", "task_failed", "graph_creation_failed"),
            {"next state": "Restarting", "final job status": None, "error": re.compile(r".+; restarting in \d+ s")},
        ),
        "the job waits for missing slots until deploy_timeout, then the scheduler creates a new plan": _when(
            _in("CreatingExecutionGraph", "graph_created", flink="WaitingForResources"), {"next state": None}
        ),
        "below its lower bounds the job fails when resource_wait_timeout elapses; Flink fails the job one state later": _when(
            _in("WaitingForResources", "resource_wait_timeout"),
            {
                "next state": "Finished",
                "error": _NOT_ENOUGH,
            },
        ),
        "the error contains the restart strategy under the name of the option, and the failure": _error(
            r"recovery is suppressed by \w+\(.*\): TASK_FAILED: an executor was lost"
        ),
        "a failed deployment fails the query immediately; Flink marks the vertex as failed first": _failed_deployment,
        "a failed query is always subject to the restart strategy": _when(
            lambda vector: _in("Executing", "graph_terminal")(vector) and vector.get("final_job_status") == "FAILED",
            {"next state": "Restarting", "final job status": None},
        ),
        "a job that was stopped with a savepoint is SUSPENDED, because it can be resumed": lambda vector, deviation: (
            vector["state"] == "StopWithSavepoint"
            and deviation.expected == "FINISHED"
            and deviation.actual == "SUSPENDED"
        ),
        "a job that does not run is suspended immediately, because it has no state to save": _when(
            lambda vector: vector["event"] == "stop_with_savepoint" and vector["state"] in _WITHOUT_QUERIES,
            {"next state": "Finished", "error": re.compile("suspended as requested(; no query was running)?")},
        ),
        "the scheduler suspends a running job at a batch boundary; Flink stops the job immediately": _suspend,
        "a job below its lower bounds stops and waits (FLIP-291), unless below_lower_bound is keep_running": _when(
            _in("Executing", "new_requirements"), {"next state": "Restarting"}
        ),
        "an event without a meaning in a state is ignored and reported as a decision; Flink raises an exception": _no_meaning,
    },
    "rescale_on_checkpoint": {
        "in Spark, a failed batch fails its query, so max_failed_batches only affects the default of max_trigger_delay": _completed_batches,
    },
    "rescaling_controller": {
        "the minimum increase applies to the sum over all vertices (FLIP-160), not to each vertex": _when(
            _grows_only, {"rescale": True}
        ),
    },
    "restart_strategies": {
        "the backoff stays at its maximum; Flink's backoff overflows from the 92nd attempt on": _largest_backoff,
    },
    "restart_strategy_loader": {
        "a streaming query always has a checkpoint, so a job restarts by default": _when(
            lambda vector: not vector.get("checkpointing"), {"class": "ExponentialDelayRestartBackoffTimeStrategy"}
        ),
    },
    "apply_requirements": {
        "the scheduler replaces -1 before it applies the requirements; Flink stores -1 and crashes": _replaced_defaults,
        "the scheduler only applies complete and valid requirements": _when(
            lambda vector: vector["requirements"].keys() != vector["current"].keys(),
            {"error": _INCOMPLETE},
        ),
    },
    "slot_to_tm": {
        "the scheduler assigns slots only when all are available, in every mode; Flink's default scheduler only in TASKS": _when(
            _too_few_slots, {"matches": 0}
        ),
    },
    "vertex_parallelism_store": {
        "the maximum parallelism never changes, because it is the number of state partitions in the checkpoint": _when(
            _always, {"can_rescale_max": False}
        ),
    },
    "legacy_scaling_interval": {
        "the scheduler refuses the same configuration, with the names of its own options": _when(
            lambda vector: "error" in vector["expected"], {"error": _INTERVALS}
        ),
    },
    "requirements_query": {
        "a reactive job ignores new bounds and reports the reason; the REST API refuses the request": _when(
            lambda vector: bool(vector.get("scheduler_mode")),
            {"error": "requirements ignored: a reactive job uses all available slots"},
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
        "the unit of a plain number is the second, also with Flink's option names; in Flink the unit is the millisecond": _plain_number,
        "a rescale always waits for a committed batch; the default of max_trigger_delay is at least 10 s": _when(
            lambda vector: _MAX_DELAY not in vector["config"], {"rescale_trigger_max_delay_ms": _LEAST_MAX_DELAY_MS}
        ),
        "the rescale history is always enabled and survives restarts": _history,
        "scaling-interval.max has an effect, so it must be greater than scaling-interval.min": _when(
            _always, {"error": _INTERVALS}
        ),
    },
}
"""The rules of each area, by the human-readable reason of the difference."""


def reason_for(area: str, vector: Vector, deviation: Comparison) -> str | None:
    """Return the reason for a deviation, None if no rule explains the deviation."""
    if vector.get("uncertain"):
        return "the expectation is not confirmed on Flink"
    rules = DIFFERENCES.get(area, {})
    return next((reason for reason, explains in rules.items() if explains(vector, deviation)), None)
