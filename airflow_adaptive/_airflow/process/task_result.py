"""Converts the event of a control loop to the result of the task, or to an exception."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow_adaptive._core.scheduler.state import Outcome


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

    Args:
        job: id of the job.
        event: event of the control loop (see `loop_events`).
        execution_timeout: timeout of the task.
        driver: what happened to the driver of a loop that failed, "" without such a driver.
        on_suspend: state of the task after the job was suspended.

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
                "only, and limit its DAG to one run at a time (max_active_runs=1)"
            )
        case {"outcome": Outcome.FAILED, "cause": cause, "recoverable": recoverable}:
            # A retry cannot correct an error that a restart cannot correct.
            error = AirflowException if recoverable else AirflowFailException
            raise error(f"job {job!r} failed: {' '.join(str(cause).split())}")  # Messages of Spark have many lines.
        case {"outcome": Outcome.CANCELED, "timed_out": True}:
            raise AirflowTaskTimeout(f"job {job!r} was canceled after execution_timeout {execution_timeout}")
        case {"outcome": Outcome.CANCELED}:
            raise AirflowFailException(f"job {job!r} was canceled on request")
        case {"outcome": Outcome.SUSPENDED} if on_suspend is not OnSuspend.SUCCESS:
            # A retry would resume the job.
            error = AirflowSkipException if on_suspend is OnSuspend.SKIP else AirflowFailException
            raise error(f"job {job!r} was suspended. It continues from its checkpoint when you resume it")
        case {"outcome": Outcome.FINISHED | Outcome.SUSPENDED}:
            return {key: event[key] for key in ("outcome", "restarts", "rescales")}
        case _:
            raise AirflowException(
                f"job {job!r}: its control loop reports {event.get('outcome') or event.get('status')!r}, which this version does not know: install the "
                "same version of airflow-adaptive in all Airflow components, and clear the task"
            )
