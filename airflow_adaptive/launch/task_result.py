"""How a job's end becomes its task's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from airflow_adaptive.scheduler.state import Outcome


def result(job: str, event: Mapping[str, Any], execution_timeout: timedelta | None) -> dict[str, Any]:
    """The task's result, or the exception that tells Airflow how the job ended.

    Args:
        job: id of the job.
        event: how its loop ended.
        execution_timeout: of the task.

    Raises:
        AirflowFailException: it failed for good, was canceled, or was taken over.
        AirflowException: a retry may help.
        AirflowTaskTimeout: the timeout has passed.
    """
    match event:
        case {"status": "error", "message": message}:
            raise AirflowException(f"job {job!r}: {message}")
        case {"status": "superseded", "attempt": attempt}:
            # A retry would take the job back, and the other task's retry take it again.
            raise AirflowFailException(
                f"job {job!r} was taken over by {attempt!r} (DAG/task/run/attempt): let one task run it, and of "
                "its DAG one run at a time (max_active_runs=1)"
            )
        case {"outcome": Outcome.FAILED, "cause": cause, "recoverable": recoverable}:
            # A retry can't mend what no restart can.
            error = AirflowException if recoverable else AirflowFailException
            raise error(f"job {job!r} failed: {' '.join(str(cause).split())}")  # Spark's messages have many lines
        case {"outcome": Outcome.CANCELED, "timed_out": True}:
            raise AirflowTaskTimeout(f"job {job!r} was canceled after execution_timeout {execution_timeout}")
        case {"outcome": Outcome.CANCELED}:
            raise AirflowFailException(f"job {job!r} was canceled as asked")
        case _:
            return {key: event[key] for key in ("outcome", "restarts", "rescales")}
