"""The published state of a job: a few small documents, in the state store of the job's Airflow Asset.

The documents serve programs and users that cannot read the job directory. They are a copy: the journal is the truth. A reader
treats a document that is missing, or that has another format, as absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.runtime.publishing.job_view import JobView
from airflow_adaptive.scheduler.policies.failure_handling import FailureRecord
from airflow_adaptive.scheduler.snapshot import encode, to_json

FORMAT: Final = 1
"""Format of the documents; a reader ignores documents of another format."""

SUMMARY: Final = "summary"
SCHEDULER: Final = "scheduler"
HISTORY: Final = "history"
RESCALES: Final = "rescales"
DRIVER: Final = "driver"
POLICY: Final = "policy"
METRICS: Final = "metrics/"
"""Keys of the documents. `METRICS` is a prefix: a page of metrics follows for each step in seconds (`runtime.publishing.time_series`)."""

MAX_VALUE_BYTES: Final = 60 << 10
"""Airflow accepts 64 KiB by default (`[state_store] max_value_storage_bytes`)."""


def documents(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    """The documents of a job by key, without the job metrics (`runtime.publishing.time_series`), which also update `DRIVER`.

    Args:
        view: of the job.
        task: the task instance that runs the job: `dag_id`, `task_id`, `run_id`, `map_index`.
    """
    history = view.history
    encoded: dict[str, Any] = {
        SUMMARY: _summary(view, task),
        SCHEDULER: to_json(view.scheduler),
        HISTORY: {"transitions": history.transitions, "decisions": history.decisions},
        RESCALES: history.all_rescales,
        DRIVER: driver_document(view.driver),
        POLICY: view.policy or {},
    }
    return {key: value if fits(value) else {} for key, value in encoded.items()}  # stores accept no null


def fits(value: Any) -> bool:
    """Whether a store accepts the value."""
    return len(json.dumps(value)) <= MAX_VALUE_BYTES


def driver_document(status: DriverStatus | None) -> Mapping[str, Any]:
    """The document of a driver status; empty without one."""
    if status is None:
        return {}
    return {
        "at": status.at,
        "state": status.state.value,
        "version": status.version,
        "parallelism": dict(status.parallelism),
        "executors": [asdict(executor) for executor in status.executors],
        "queries": [asdict(query) for query in status.queries],
    }


def failure_records(view: JobView) -> list[dict[str, Any]]:
    """The newest failures, encoded, oldest first; each failure is one line."""
    return [_failure_record(record) for record in view.failures]


def _failure_record(record: FailureRecord) -> dict[str, Any]:
    concurrent = [failure.summary for failure in record.concurrent]
    return {**encode(record), "failure": record.failure.summary, "concurrent": concurrent}


def _summary(view: JobView, task: Mapping[str, Any]) -> dict[str, Any]:
    transitions = view.history.transitions
    return {
        "format": FORMAT,
        "job": view.job,
        "job_type": view.job_type.value,
        "state": view.state,
        "since": _text(view.since),
        "outcome": None if view.outcome is None else view.outcome.value,
        "cause": view.cause,
        "parallelism": None if view.parallelism is None else dict(view.parallelism),
        "requirements": {name: {"lower": it.lower, "upper": it.upper} for name, it in view.requirements.items()},
        "slots": asdict(view.slots),
        "urls": asdict(view.urls),
        "restarts": view.restarts,
        "rescales": view.rescales,
        "attempt": view.attempt,
        "failures": len(view.failures),
        "requirements_source": view.requirements_source,
        "last_transition": transitions[-1] if transitions else None,
        "task": dict(task),
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
