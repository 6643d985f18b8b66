"""Where the scheduler differs from Flink on purpose, and why: every rule that a deviation may be explained with.

A rule looks at what a vector says and at what deviates, never at its id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_adaptive.testing.conformance.result import Deviation, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One deliberate difference.

    Attributes:
        area: of the vectors.
        why: for people.
        explains: whether it accounts for a vector's deviation.
    """

    area: str
    why: str
    explains: Callable[[Vector, Deviation], bool]


def _is(state: str, *events: str) -> Callable[[Vector, Deviation], bool]:
    return lambda vector, _: vector["state"] == state and vector["event"] in events


def _grows_only(vector: Vector, deviation: Deviation) -> bool:
    current, new = vector["current"], vector["new"]
    grown = sum(new.values()) - sum(current.values())
    shrinks = any(new[name] < parallelism for name, parallelism in current.items())
    return not shrinks and grown >= vector["min_parallelism_increase"] and deviation.actual is True


def _waits_for_slots(reason: str) -> Callable[[Vector, Deviation], bool]:
    """Whether a job that lost all its slots is still under way where Flink's has ended for this reason."""

    def explains(vector: Vector, deviation: Deviation) -> bool:
        ended_by = vector["expected"].get("latest", {}).get("terminated_reason") == reason
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
"""Consecutive attempt from which on Flink's default backoff overflows."""

DIFFERENCES = (
    Difference(
        area="state_transitions",
        why="a failure while Deploying goes to failure handling (Flink fails the job: FLINK-22692)",
        explains=_is("CreatingExecutionGraph", "global_failure", "task_failed", "graph_creation_failed"),
    ),
    Difference(
        area="state_transitions",
        why="slots that did not arrive are waited for until deploy_timeout, then the job is planned again",
        explains=_is("CreatingExecutionGraph", "graph_created"),
    ),
    Difference(
        area="state_transitions",
        why="without the minimum the job fails when the wait ends; Flink fails it one state later, with less to say",
        explains=lambda vector, deviation: (
            _is("WaitingForResources", "resource_wait_timeout")(vector, deviation)
            and (deviation.actual == "Finished" or deviation.what == "error")
        ),
    ),
    Difference(
        area="state_transitions",
        why="the strategy that suppresses recovery is named as here, and the failure is told",
        explains=lambda _, deviation: (
            deviation.what == "error"
            and all(_SUPPRESSED in str(text).casefold() for text in (deviation.expected, deviation.actual))
        ),
    ),
    Difference(
        area="state_transitions",
        why="a plan that can't be run is a failed query at once; Flink marks the vertex first, then does the same",
        explains=lambda vector, deviation: (
            _is("Executing", "enter")(vector, deviation) and deviation.actual in ("Restarting", "Failing")
        ),
    ),
    Difference(
        area="state_transitions",
        why="a query that failed always goes to failure handling",
        explains=lambda vector, deviation: (
            _is("Executing", "graph_terminal")(vector, deviation) and deviation.actual != "FINISHED"
        ),
    ),
    Difference(
        area="state_transitions",
        why="a job that was stopped with a savepoint is SUSPENDED: it may be resumed",
        explains=lambda vector, deviation: vector["state"] == "StopWithSavepoint" and deviation.expected == "FINISHED",
    ),
    Difference(
        area="state_transitions",
        why="a job that does not run has nothing to save: it is suspended at once",
        explains=lambda vector, _: vector["event"] == "stop_with_savepoint" and vector["next_state"] is None,
    ),
    Difference(
        area="state_transitions",
        why="a running job is always suspended at a batch boundary; Flink's suspend stops the job at once",
        explains=lambda vector, _: vector["event"] == "suspend",
    ),
    Difference(
        area="rescale_on_checkpoint",
        why="in Spark no batch fails without its query: max_failed_batches is only a factor in max_trigger_delay",
        explains=lambda vector, _: any(event["event"] == "checkpoint_failed" for event in vector["events"]),
    ),
    Difference(
        area="state_transitions",
        why="below its lower bound a job stops and waits (FLIP-291), unless below_lower_bound is keep_running",
        explains=lambda vector, deviation: (
            _is("Executing", "new_requirements")(vector, deviation) and deviation.expected is None
        ),
    ),
    Difference(
        area="state_transitions",
        why="what has no meaning in a state is ignored with a reason; nothing is raised",
        explains=lambda vector, deviation: deviation.what == "error" and vector["next_state"] is None,
    ),
    Difference(
        area="rescaling_controller",
        why="the minimal increase is cumulative (FLIP-160), not per vertex",
        explains=_grows_only,
    ),
    Difference(
        area="restart_strategies",
        why="the backoff stays at its maximum; Flink's overflows from the 92nd attempt on",
        explains=lambda vector, deviation: (
            deviation.what.startswith("backoff") and len(vector["steps"]) >= _FIRST_OVERFLOW
        ),
    ),
    Difference(
        area="restart_strategy_loader",
        why="a streaming query always has a checkpoint, so a job restarts unless told otherwise",
        explains=lambda vector, deviation: (
            not vector.get("checkpointing") and deviation.actual == "ExponentialDelayRestartBackoffTimeStrategy"
        ),
    ),
    Difference(
        area="apply_requirements",
        why="-1 is expanded before it is applied; Flink stores it and crashes",
        explains=lambda vector, _: any(-1 in bounds.values() for bounds in vector["requirements"].values()),
    ),
    Difference(
        area="apply_requirements",
        why="requirements are complete and valid before they are applied",
        explains=lambda vector, deviation: (
            deviation.what == "error" and vector["requirements"].keys() != vector["current"].keys()
        ),
    ),
    Difference(
        area="slot_to_tm",
        why="slots are assigned when all of them are there, in every mode (Flink's default scheduler: in TASKS only)",
        explains=_too_few_slots,
    ),
    Difference(
        area="vertex_parallelism_store",
        why="the maximum parallelism never changes: it is the number of state partitions in the checkpoint",
        explains=lambda _, deviation: deviation.what == "can_rescale_max",
    ),
    Difference(
        area="legacy_scaling_interval",
        why="the same is refused, in the words of our options",
        explains=lambda _, deviation: (
            deviation.what == "error" and bool(deviation.expected) and "scaling_interval_max" in str(deviation.actual)
        ),
    ),
    Difference(
        area="requirements_query",
        why="a reactive job keeps its bounds and says so; whoever asks over REST is refused there",
        explains=lambda vector, deviation: deviation.what == "error" and bool(vector.get("scheduler_mode")),
    ),
    Difference(
        area="rescale_timeline",
        why="a job that has run before waits for slots without end; Flink's fails when its wait is over",
        explains=_waits_for_slots("EXCEPTION_OCCURRED"),
    ),
    Difference(
        area="rescale_timeline",
        why="the loss of slots does not count against the restart strategy; the job waits for others",
        explains=_waits_for_slots("JOB_FAILED"),
    ),
    Difference(
        area="settings",
        why="a number without a unit is seconds, also under Flink's names, where it is milliseconds",
        explains=lambda vector, deviation: (
            isinstance(deviation.expected, int)
            and deviation.actual == deviation.expected * 1000
            and str(deviation.expected) in map(str, vector["config"].values())
        ),
    ),
    Difference(
        area="settings",
        why="a rescale always waits for a committed batch, at least 10 s unless max_trigger_delay says else",
        explains=lambda vector, deviation: (
            deviation.what == "rescale_trigger_max_delay_ms"
            and _MAX_DELAY not in vector["config"]
            and deviation.actual == _LEAST_MAX_DELAY_MS
        ),
    ),
    Difference(
        area="settings",
        why="the history of rescales is on by default, can't be switched off, and outlives restarts",
        explains=lambda _, deviation: (
            (deviation.what == "rescale_history_max" and deviation.expected == 0)
            or (deviation.what == "error" and _HISTORY_SIZE in str(deviation.actual))
        ),
    ),
    Difference(
        area="settings",
        why="scaling-interval.max is alive here, so it must be longer than scaling-interval.min",
        explains=lambda _, deviation: deviation.what == "error" and "scaling_interval_max" in str(deviation.actual),
    ),
)


def why(area: str, vector: Vector, deviation: Deviation) -> str | None:
    """The reason of a deliberate difference, None if there is no rule for the deviation."""
    if vector.get("uncertain"):
        return "the expectation could not be confirmed on Flink"
    return next((rule.why for rule in DIFFERENCES if rule.area == area and rule.explains(vector, deviation)), None)
