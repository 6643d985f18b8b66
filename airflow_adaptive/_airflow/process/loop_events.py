"""The events with which a control loop resumes its task. `task_result` converts the events to results and exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow_adaptive._airflow.process.process_resources import DeployedJob
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.history.failures import root_cause
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.state import Finished, Outcome, SchedulerState
from airflow_adaptive._core.scheduler.state_transitions import can_recover
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.spec import JobSpec

MAX_CAUSE_CHARACTERS: Final = 4000
"""Longest cause in a reported end. The log of the task contains the whole cause."""


def finished_event(
    state: SchedulerState, current: Finished, cancel_at: datetime | None, last_error: str | None
) -> dict[str, Any]:
    """Return the event of a loop whose job has ended."""
    causes = [cause for cause in (root_cause(state), last_error) if cause]
    return {
        "status": "finished",
        "outcome": current.outcome.value,
        "cause": "; ".join(causes) or None,
        "recoverable": current.cause is None or can_recover(state, current.cause),
        "timed_out": cancel_at is not None and current.since >= cancel_at,
        "restarts": state.num_restarts,
        "rescales": state.num_rescales,
        "parallelism": encode(state.timeline.running),
    }


def end_summary(event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the fields of the summary of a job that has ended (`_core.view`), from the event of its loop."""
    more = {name: event[name] for name in ("outcome", "cause", "restarts", "rescales") if name in event}
    cause = more.get("cause")
    return {
        **more,
        "state": Finished.__name__,
        "since": now.isoformat(),
        "parallelism": None,
        "slots": {"held": 0, "available": 0},
        "cause": cause and str(cause)[:MAX_CAUSE_CHARACTERS],
    }


def recycle_event(job: DeployedJob, cancel_at: datetime | None) -> dict[str, Any]:
    """Return the event of a loop that the loop of a new trigger replaces."""
    return {
        "status": "recycle",
        "attempt": job.spec.attempt,
        "cancel_at": None if cancel_at is None else cancel_at.isoformat(),
        "connections": asdict(job.connections),
        "base": job.base,
        "spec": encode(job.spec),
    }


def deployed_spec(document: Any) -> JobSpec:
    """Decode the job as deployed, from a recycle event or from the arguments of a trigger.

    Raises:
        SnapshotError: another version encoded the job. The message names the remedy.
    """
    try:
        return cast(JobSpec, decode(JobSpec, document))
    except SnapshotError as error:
        raise SnapshotError(
            f"the job as deployed by another version cannot be read ({error}): install the same version of "
            "airflow-adaptive in all Airflow components, and clear the task"
        ) from error


def superseded_event(error: SupersededError) -> dict[str, Any]:
    """Return the event of a loop whose job another attempt has taken over."""
    return {"status": "superseded", "attempt": error.attempt}


def error_event(error: Exception, driver: str | None, *, is_driver_known: bool = True) -> dict[str, Any]:
    """Return the event of a loop that failed, with the driver that may still run. A loop that could not read the journal does not know it."""
    return {"status": "error", "message": with_code(error), "driver": driver, "is_driver_known": is_driver_known}


class OnSuspend(StrEnum):
    """State of the task after its job was suspended."""

    SUCCESS = "success"
    SKIP = "skip"
    FAIL = "fail"


def task_result(
    job: str,
    event: Mapping[str, Any],
    execution_timeout: timedelta | None,
    driver: str = "",
    on_suspend: OnSuspend = OnSuspend.SUCCESS,
) -> dict[str, Any]:
    """Return the result of the task. An exception reports an unsuccessful end of the job to Airflow.

    `driver` is what happened to the driver of a loop that failed.

    Raises:
        AirflowFailException: the job failed with an error that a retry cannot correct, was canceled, or was taken over.
        AirflowException: the job or its loop failed; a retry may succeed.
        AirflowSkipException: the job was suspended, and `on_suspend` is `SKIP`.
        AirflowTaskTimeout: the timeout passed, and the job was canceled.
    """
    match event:
        case {"status": "error", "message": message}:
            raise AirflowException("; ".join([f"job {job!r}: {message}", *([driver] if driver else [])]))
        case {"status": "superseded", "attempt": attempt}:
            # A retry would take the job back, and a retry of the other task would take it over again.
            raise AirflowFailException(
                f"job {job!r} was taken over by {attempt!r} (DAG/task/run/attempt): run the job in one task "
                "only, and limit its DAG to one run at a time (max_active_runs=1) [superseded]"
            )
        case {"outcome": Outcome.FAILED, "cause": cause, "recoverable": recoverable}:
            # A retry cannot correct an error that a restart cannot correct.
            error = AirflowException if recoverable else AirflowFailException
            raise error(f"job {job!r} failed: {' '.join(str(cause).split())}")  # Messages of Spark have many lines.
        case {"outcome": Outcome.CANCELED, "timed_out": True}:
            raise AirflowTaskTimeout(f"job {job!r} was canceled after execution_timeout {execution_timeout} [canceled]")
        case {"outcome": Outcome.CANCELED}:
            raise AirflowFailException(f"job {job!r} was canceled on request [canceled]")
        case {"outcome": Outcome.SUSPENDED} if on_suspend is not OnSuspend.SUCCESS:
            # A retry would resume the job.
            error = AirflowSkipException if on_suspend is OnSuspend.SKIP else AirflowFailException
            raise error(f"job {job!r} was suspended. It continues from its checkpoint when you resume it [suspended]")
        case {"outcome": Outcome.FINISHED | Outcome.SUSPENDED}:
            return {key: event[key] for key in ("outcome", "restarts", "rescales")}
        case _:
            raise AirflowException(
                f"job {job!r}: its control loop reports {event.get('outcome') or event.get('status')!r}, which this version does not know: install the "
                "same version of airflow-adaptive in all Airflow components, and clear the task [other-version]"
            )
