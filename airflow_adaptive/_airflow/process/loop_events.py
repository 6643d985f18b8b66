"""The events with which a control loop resumes its task. `task_result` converts the events to results and exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, cast

from airflow_adaptive._airflow.process.clusters import ConnectionIds
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.history.failures import root_cause
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._core.scheduler.state import Finished, SchedulerState
from airflow_adaptive._core.scheduler.state_transitions.recovery import can_recover
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.spec import JobSpec

MAX_CAUSE_CHARACTERS: Final = 4000
"""Longest cause in a reported end. The log of the task contains the whole cause."""


def finished_event(
    state: SchedulerState, current: Finished, cancel_at: datetime | None, last_error: str | None
) -> dict[str, Any]:
    """Return the event of a loop whose job has ended.

    Args:
        state: state of the scheduler at the end of the loop.
        current: the end of the job.
        cancel_at: deadline of the task, None without one.
        last_error: last error of the loop, None if there was none.
    """
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
    """Return the fields of the summary of a job that has ended (`_core.view`), from the event of its loop.

    Args:
        event: event of the loop (`finished_event`).
        now: time at which the task reports the end.
    """
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


def recycle_event(spec: JobSpec, connections: ConnectionIds, base: str, cancel_at: datetime | None) -> dict[str, Any]:
    """Return the event of a loop that the loop of a new trigger replaces.

    Args:
        spec: the job as deployed.
        connections: Airflow connections of the cluster on which the job runs.
        base: URI of the folder that contains the directory of the job.
        cancel_at: deadline of the task, None without one.
    """
    return {
        "status": "recycle",
        "attempt": spec.attempt,
        "cancel_at": None if cancel_at is None else cancel_at.isoformat(),
        "connections": asdict(connections),
        "base": base,
        "spec": encode(spec),
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
    """Return the event of a loop that failed.

    Args:
        error: the error.
        driver: id of the driver that may still run, None if there is none.
        is_driver_known: whether the loop could read the journal, which names the driver.
    """
    return {"status": "error", "message": str(error), "driver": driver, "is_driver_known": is_driver_known}
