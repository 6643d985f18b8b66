"""The failure history: each failure with the decision on it and its concurrent failures.

Theory, after Flink's exception history: the failure that the scheduler handles is a *root* failure. Failures that arrive while
the job stops or restarts because of the root failure are *concurrent* failures. `record_step` updates the history with each step.
Polls may report the same failure twice; a known failure is not recorded again.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive._core.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, Event, QueryFailed
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, FailureRecord, is_unended_batch
from airflow_adaptive._core.scheduler.state import (
    Canceling,
    Current,
    Executing,
    Failing,
    Finished,
    Restarting,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import MAX_FAILURE_CHARACTERS, Rescale

MAX_CONCURRENT = 16
"""Number of concurrent failures that a record keeps at most; the first ones are kept."""

CUT = " ..."
"""End of a text that was shortened."""

MAX_MESSAGE_CHARACTERS = 1000
MAX_CONCURRENT_CHARACTERS = 300
MAX_CAUSES = 8
"""Limits, because every snapshot contains the history; the decisions in the journal have the complete messages."""


def record_step(before: SchedulerState, event: Event, step: Step) -> Step:
    """Return the step with the failure history that it leads to.

    Args:
        before: state before the event.
        event: event that is not outdated.
        step: result of the event.
    """
    records = _recorded(before, event, step)[-before.options.failure_history_size :]
    return step if records == before.failures else replace(step, state=replace(step.state, failures=records))


def root_cause(state: SchedulerState, newest: Rescale | None = None) -> str | None:
    """Return the failure that ended the job, or that it handles, with the number of concurrent failures; None without one.

    With the newest rescale, a failure counts until a driver has completed a trigger after the restart.
    """
    cause = _handled(state.current) or _unproved(state, newest)
    if cause is None:
        return None
    others = len(state.failures[-1].concurrent) if state.failures else 0
    return f"{cause.summary} (and {others} concurrent failure{'s' if others > 1 else ''})" if others else cause.summary


def _unproved(state: SchedulerState, newest: Rescale | None) -> Failure | None:
    """Return the failure after which the job has restarted, as long as nothing proves that the restart has helped."""
    last = state.failures[-1].failure if state.failures else None
    if newest is None or last is None or newest.failure != last.summary[:MAX_FAILURE_CHARACTERS]:
        return None
    has_worked = state.driver is not None and state.driver.has_worked and not state.proved.in_a_row
    is_over = newest.end is not None and (has_worked or not isinstance(state.current, Executing))
    return None if is_over else last


def _recorded(before: SchedulerState, event: Event, step: Step) -> tuple[FailureRecord, ...]:
    records, reported = before.failures, _reported(before, event)
    if _handled(before.current) is not None and records:
        return (*records[:-1], _with_concurrent(_with_decision(records[-1], before, step), reported))
    root = _handled(step.state.current) or reported
    if root is None or (step.transition is None and records and records[-1].failure == bounded(root)):
        return records
    return (*records, _record(before, event, step, root))


def _handled(current: Current) -> Failure | None:
    """Return the failure that the state handles."""
    match current:
        case Restarting(failure=failure, lost=lost):
            return failure or lost
        case StopWithSavepoint(failure=failure):
            return failure
        case Failing(cause=cause) | Finished(cause=cause):
            return cause
        case _:
            return None


def _reported(before: SchedulerState, event: Event) -> Failure | None:
    """Return the failure that the event reports; a driver that ends as requested, or could not stop a batch, has not failed."""
    current = before.current
    if isinstance(current, Canceling | Finished):
        return None
    match event:
        case QueryFailed(failure=failure):
            return failure
        case DriverEnded(is_move=True):
            return None
        case DriverEnded(failure=failure) | DriverHeartbeatTimedOut(failure=failure) if (
            before.driver and not _is_to_end(current) and not is_unended_batch(failure)
        ):
            return failure
        case _:
            return None


def _is_to_end(current: Current) -> bool:
    match current:
        case Restarting(in_place=in_place):
            return not in_place
        case StopWithSavepoint(saved=saved, killed=killed):
            return saved or killed
        case _:
            return isinstance(current, Failing)


def _record(before: SchedulerState, event: Event, step: Step, root: Failure) -> FailureRecord:
    return FailureRecord(at=event.at, state=before.name, failure=bounded(root), decision=_decision(step, root))


def _with_decision(record: FailureRecord, before: SchedulerState, step: Step) -> FailureRecord:
    """Return the record with the decision that follows a stop with savepoint; other decisions do not change."""
    if not isinstance(before.current, StopWithSavepoint) or step.transition is None:
        return record
    return replace(record, decision=_decision(step, _handled(step.state.current) or record.failure))


def _with_concurrent(record: FailureRecord, reported: Failure | None) -> FailureRecord:
    if reported is None or bounded(reported) == record.failure:
        return record
    added = bounded(reported, MAX_CONCURRENT_CHARACTERS)
    if added in record.concurrent:
        return record
    return replace(record, concurrent=(*record.concurrent, added)[:MAX_CONCURRENT])


def _decision(step: Step, failure: Failure) -> str:
    """Return the reason of the step without the summary of the failure."""
    reason = "" if step.decision is None else step.decision.reason
    reported = reason.replace(failure.summary, "").strip(" :;")
    return "the job fails" if reported in ("", failure.message) else shortened(reported, MAX_MESSAGE_CHARACTERS)


def bounded(failure: Failure, limit: int = MAX_MESSAGE_CHARACTERS) -> Failure:
    """Return the failure as a record contains it."""
    return replace(failure, message=shortened(failure.message, limit), causes=failure.causes[:MAX_CAUSES])


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters: the beginning of a longer text, up to the end of a word."""
    if len(text) <= limit:
        return text
    beginning = text[: limit - len(CUT)]
    words = beginning.rpartition(" ")[0]
    return f"{words if len(words) > limit / 2 else beginning}{CUT}"
