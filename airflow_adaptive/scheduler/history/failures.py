"""The failure history: each failure with what was decided on it and the failures that came with it.

Theory, after Flink's exception history: the failure that makes the scheduler act is a *root*; others that arrive while the
job is on its way because of it are *concurrent* to it. `record_step` folds each step in. The world is observed by level, so the
same failure may be reported twice: a failure that is known already is no other one.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_adaptive.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, Event, QueryFailed
from airflow_adaptive.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive.scheduler.state import (
    Canceling,
    Current,
    Failing,
    Finished,
    Restarting,
    SchedulerState,
    StopWithSavepoint,
)
from airflow_adaptive.scheduler.state_transitions import Step

MAX_CONCURRENT = 16
"""How many concurrent failures a record has; the first tell most."""

MAX_MESSAGE_CHARACTERS = 300
MAX_CAUSES = 8
"""The history is part of every snapshot, so it has to be small; the log's decisions have the whole messages."""


def record_step(before: SchedulerState, event: Event, step: Step) -> Step:
    """The step with the history that it leads to.

    Args:
        before: the state that the event met.
        event: not a stale one.
        step: what it led to.
    """
    records = _recorded(before, event, step)[-before.options.failure_history_size :]
    return step if records == before.failures else replace(step, state=replace(step.state, failures=records))


def root_cause(state: SchedulerState) -> str | None:
    """Why the job failed, with the number of failures that came with it; None if it has not."""
    cause = state.current.cause if isinstance(state.current, Finished) else None
    if cause is None:
        return None
    others = len(state.failures[-1].concurrent) if state.failures else 0
    return f"{cause.summary} (and {others} concurrent failure{'s' if others > 1 else ''})" if others else cause.summary


def _recorded(before: SchedulerState, event: Event, step: Step) -> tuple[FailureRecord, ...]:
    records, reported = before.failures, _reported(before, event)
    if _handled(before.current) is not None and records:
        return (*records[:-1], _with_concurrent(_with_decision(records[-1], before, step), reported))
    root = _handled(step.state.current) or reported
    if root is None or (step.transition is None and records and records[-1].failure == _bounded(root)):
        return records
    return (*records, _record(before, event, step, root))


def _handled(current: Current) -> Failure | None:
    """The failure that the state is about."""
    match current:
        case Restarting(failure=failure) | StopWithSavepoint(failure=failure):
            return failure
        case Failing(cause=cause) | Finished(cause=cause):
            return cause
        case _:
            return None


def _reported(before: SchedulerState, event: Event) -> Failure | None:
    """The failure that the event tells; a driver that ends as it was reported to has not failed."""
    current = before.current
    if isinstance(current, Canceling | Finished):
        return None
    match event:
        case QueryFailed(failure=failure):
            return failure
        case DriverEnded(failure=failure) | DriverHeartbeatTimedOut(failure=failure) if (
            before.driver and not _is_to_end(current)
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
    return FailureRecord(at=event.at, state=before.name, failure=_bounded(root), decision=_decision(step, root))


def _with_decision(record: FailureRecord, before: SchedulerState, step: Step) -> FailureRecord:
    """What is decided when the outcome of the stop is known; a restart that is under way was decided before."""
    if not isinstance(before.current, StopWithSavepoint) or step.transition is None:
        return record
    return replace(record, decision=_decision(step, _handled(step.state.current) or record.failure))


def _with_concurrent(record: FailureRecord, reported: Failure | None) -> FailureRecord:
    known = (record.failure, *record.concurrent)
    if reported is None or _bounded(reported) in known:
        return record
    return replace(record, concurrent=(*record.concurrent, _bounded(reported))[:MAX_CONCURRENT])


def _decision(step: Step, failure: Failure) -> str:
    """The step's reason without the failure, which it repeats."""
    reason = "" if step.decision is None else step.decision.reason
    reported = reason.replace(failure.summary, "").strip(" :;")
    return "the job fails" if reported in ("", failure.message) else _shortened(reported)


def _bounded(failure: Failure) -> Failure:
    return replace(failure, message=_shortened(failure.message), causes=failure.causes[:MAX_CAUSES])


def _shortened(text: str) -> str:
    """The text without its middle if it is long."""
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    half = MAX_MESSAGE_CHARACTERS // 2 - 3
    return f"{text[:half]} ... {text[-half:]}"
