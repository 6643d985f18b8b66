"""Deliberate differences from Flink, as rules that explain deviations.

A rule evaluates the content of a vector and the deviation, never the id of the vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_adaptive.testing.conformance.result import Deviation, Vector
from airflow_adaptive.testing.conformance.subjects.conditions import Conditions, Phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A deliberate difference.

    Attributes:
        area: area of the vectors to which the rule applies.
        reason: human-readable reason for the difference.
        explains: function that returns whether the difference explains a deviation of a vector.
    """

    area: str
    reason: str
    explains: Callable[[Vector, Deviation], bool]


def _is(state: str, *events: str) -> Callable[[Vector, Deviation], bool]:
    return lambda vector, _: vector["state"] == state and vector["event"] in events


def _grows_only(vector: Vector, deviation: Deviation) -> bool:
    current, new = vector["current"], vector["new"]
    grown = sum(new.values()) - sum(current.values())
    shrinks = any(new[name] < parallelism for name, parallelism in current.items())
    return not shrinks and grown >= vector["min_parallelism_increase"] and deviation.actual is True


def _waits_for_slots(terminated_reason: str) -> Callable[[Vector, Deviation], bool]:
    """Explain a rescale that continues after the loss of slots, where Flink's rescale has ended with the reason."""

    def explains(vector: Vector, deviation: Deviation) -> bool:
        ended_by = vector["expected"].get("latest", {}).get("terminated_reason") == terminated_reason
        lost = any("kill" in step or "terminate" in step for step in vector["steps"])
        return ended_by and lost and deviation.actual is None

    return explains


def _too_few_slots(vector: Vector, _: Deviation) -> bool:
    offered = sum(vector["tms"].values()) if "tms" in vector else len(vector["slots"])
    return offered < len(vector["requests"])


_MAX_DELAY = "jobmanager.adaptive-scheduler.rescale-trigger.max-delay"
_HISTORY_SIZE = "web.adaptive-scheduler.rescale-history.size"

_SUPPRESSED = "recovery is suppressed by"

_LEAST_MAX_DELAY_MS = 10_000

_FIRST_OVERFLOW = 92
"""Number of the first consecutive attempt at which Flink's default backoff overflows."""

DIFFERENCES = (
    Difference(
        area="state_transitions",
        reason="a rescale is decided on the slots of the same event, so it always has resources; without resources, Flink's scheduler"
        " fails, and this scheduler keeps its state or waits for slots",
        explains=lambda vector, deviation: (
            _is("Executing", "rescale_decision")(vector, deviation) and deviation.actual != "Restarting"
        ),
    ),
    Difference(
        area="state_transitions",
        reason="a job that restarts for a rescale starts with the parallelism of the rescale, even if more slots have become available"
        " (FLINK-40379); Flink waits for resources again",
        explains=lambda vector, deviation: (
            _is("Restarting", "graph_canceled_and_backoff_elapsed")(vector, deviation)
            and deviation.actual == "Deploying"
            and Conditions(vector["condition"]).mentions(Phrase.TARGET_EXCEEDED)
        ),
    ),
    Difference(
        area="state_transitions",
        reason="a failure in Deploying is subject to the restart strategy; Flink fails the job (FLINK-22692)",
        explains=_is("CreatingExecutionGraph", "global_failure", "task_failed", "graph_creation_failed"),
    ),
    Difference(
        area="state_transitions",
        reason="the job waits for missing slots until deploy_timeout, then the scheduler creates a new plan",
        explains=_is("CreatingExecutionGraph", "graph_created"),
    ),
    Difference(
        area="state_transitions",
        reason="below its lower bounds the job fails when resource_wait_timeout elapses; Flink fails the job one state later",
        explains=lambda vector, deviation: (
            _is("WaitingForResources", "resource_wait_timeout")(vector, deviation)
            and (deviation.actual == "Finished" or deviation.what == "error")
        ),
    ),
    Difference(
        area="state_transitions",
        reason="the error contains the restart strategy under the name of the option, and the failure",
        explains=lambda _, deviation: (
            deviation.what == "error"
            and all(_SUPPRESSED in str(text).casefold() for text in (deviation.expected, deviation.actual))
        ),
    ),
    Difference(
        area="state_transitions",
        reason="a failed deployment fails the query immediately; Flink marks the vertex as failed first",
        explains=lambda vector, deviation: (
            _is("Executing", "enter")(vector, deviation) and deviation.actual in ("Restarting", "Failing")
        ),
    ),
    Difference(
        area="state_transitions",
        reason="a failed query is always subject to the restart strategy",
        explains=lambda vector, deviation: (
            _is("Executing", "graph_terminal")(vector, deviation) and deviation.actual != "FINISHED"
        ),
    ),
    Difference(
        area="state_transitions",
        reason="a job that was stopped with a savepoint is SUSPENDED, because it can be resumed",
        explains=lambda vector, deviation: vector["state"] == "StopWithSavepoint" and deviation.expected == "FINISHED",
    ),
    Difference(
        area="state_transitions",
        reason="a job that does not run is suspended immediately, because it has no state to save",
        explains=lambda vector, _: vector["event"] == "stop_with_savepoint" and vector["next_state"] is None,
    ),
    Difference(
        area="state_transitions",
        reason="the scheduler suspends a running job at a batch boundary; Flink stops the job immediately",
        explains=lambda vector, _: vector["event"] == "suspend",
    ),
    Difference(
        area="rescale_on_checkpoint",
        reason="in Spark, a failed batch fails its query, so max_failed_batches only affects the default of max_trigger_delay",
        explains=lambda vector, _: any(event["event"] == "checkpoint_failed" for event in vector["events"]),
    ),
    Difference(
        area="state_transitions",
        reason="a job below its lower bounds stops and waits (FLIP-291), unless below_lower_bound is keep_running",
        explains=lambda vector, deviation: (
            _is("Executing", "new_requirements")(vector, deviation) and deviation.expected is None
        ),
    ),
    Difference(
        area="state_transitions",
        reason="an event without a meaning in a state is ignored and reported as a decision; Flink raises an exception",
        explains=lambda vector, deviation: deviation.what == "error" and vector["next_state"] is None,
    ),
    Difference(
        area="rescaling_controller",
        reason="the minimum increase applies to the sum over all vertices (FLIP-160), not to each vertex",
        explains=_grows_only,
    ),
    Difference(
        area="restart_strategies",
        reason="the backoff stays at its maximum; Flink's backoff overflows from the 92nd attempt on",
        explains=lambda vector, deviation: (
            deviation.what.startswith("backoff") and len(vector["steps"]) >= _FIRST_OVERFLOW
        ),
    ),
    Difference(
        area="restart_strategy_loader",
        reason="a streaming query always has a checkpoint, so a job restarts by default",
        explains=lambda vector, deviation: (
            not vector.get("checkpointing") and deviation.actual == "ExponentialDelayRestartBackoffTimeStrategy"
        ),
    ),
    Difference(
        area="apply_requirements",
        reason="the scheduler replaces -1 before it applies the requirements; Flink stores -1 and crashes",
        explains=lambda vector, _: any(-1 in bounds.values() for bounds in vector["requirements"].values()),
    ),
    Difference(
        area="apply_requirements",
        reason="the scheduler only applies complete and valid requirements",
        explains=lambda vector, deviation: (
            deviation.what == "error" and vector["requirements"].keys() != vector["current"].keys()
        ),
    ),
    Difference(
        area="slot_to_tm",
        reason="the scheduler assigns slots only when all are available, in every mode; Flink's default scheduler only in TASKS",
        explains=_too_few_slots,
    ),
    Difference(
        area="vertex_parallelism_store",
        reason="the maximum parallelism never changes, because it is the number of state partitions in the checkpoint",
        explains=lambda _, deviation: deviation.what == "can_rescale_max",
    ),
    Difference(
        area="legacy_scaling_interval",
        reason="the scheduler refuses the same configuration, with the names of its own options",
        explains=lambda _, deviation: (
            deviation.what == "error" and bool(deviation.expected) and "scaling_interval_max" in str(deviation.actual)
        ),
    ),
    Difference(
        area="requirements_query",
        reason="a reactive job ignores new bounds and reports the reason; the REST API refuses the request",
        explains=lambda vector, deviation: deviation.what == "error" and bool(vector.get("scheduler_mode")),
    ),
    Difference(
        area="rescale_timeline",
        reason="a job that has run before waits for slots without a timeout; Flink's job fails when its timeout elapses",
        explains=_waits_for_slots("EXCEPTION_OCCURRED"),
    ),
    Difference(
        area="rescale_timeline",
        reason="the loss of slots does not count as a failure for the restart strategy; the job waits for new slots",
        explains=_waits_for_slots("JOB_FAILED"),
    ),
    Difference(
        area="settings",
        reason="the unit of a plain number is the second, also with Flink's option names; in Flink the unit is the millisecond",
        explains=lambda vector, deviation: (
            isinstance(deviation.expected, int)
            and deviation.actual == deviation.expected * 1000
            and str(deviation.expected) in map(str, vector["config"].values())
        ),
    ),
    Difference(
        area="settings",
        reason="a rescale always waits for a committed batch; the default of max_trigger_delay is at least 10 s",
        explains=lambda vector, deviation: (
            deviation.what == "rescale_trigger_max_delay_ms"
            and _MAX_DELAY not in vector["config"]
            and deviation.actual == _LEAST_MAX_DELAY_MS
        ),
    ),
    Difference(
        area="settings",
        reason="the rescale history is always enabled and survives restarts",
        explains=lambda _, deviation: (
            (deviation.what == "rescale_history_max" and deviation.expected == 0)
            or (deviation.what == "error" and _HISTORY_SIZE in str(deviation.actual))
        ),
    ),
    Difference(
        area="settings",
        reason="scaling-interval.max has an effect, so it must be greater than scaling-interval.min",
        explains=lambda _, deviation: deviation.what == "error" and "scaling_interval_max" in str(deviation.actual),
    ),
)


def reason_for(area: str, vector: Vector, deviation: Deviation) -> str | None:
    """Return the reason for a deviation, None if no rule explains the deviation."""
    if vector.get("uncertain"):
        return "the expectation is not confirmed on Flink"
    return next((rule.reason for rule in DIFFERENCES if rule.area == area and rule.explains(vector, deviation)), None)
