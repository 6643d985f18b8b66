"""What a job shows to those who can't read its directory: a few small documents, beside the inbox of the job.

The loop keeps them where people and programs look (the state store of the job's Airflow Asset), and writes only what has changed.
They are a mirror: the truth is the job's log, and a reader takes a document that is missing or not understood for absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

FORMAT: Final = 1
"""Of the documents here; a reader leaves those of another format alone."""

SUMMARY: Final = "summary"
SCHEDULER: Final = "scheduler"
HISTORY: Final = "history"
RESCALES: Final = "rescales"
DRIVER: Final = "driver"
POLICY: Final = "policy"
METRICS: Final = "metrics/"
"""Keys of the mirror; of the last one there are several, one for each step in seconds (`runtime.publishing.time_series`)."""

MAX_VALUE_BYTES: Final = 60 << 10
"""Airflow takes 64 KiB by default (`[state_store] max_value_storage_bytes`)."""


def documents(view: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    """The documents of a job by key, those apart that show its figures (`runtime.publishing.time_series`); these renew the driver's, too.

    Args:
        view: what the loop shows (`runtime.loop.view`).
        task: the task instance that runs the job: `dag_id`, `task_id`, `run_id`, `map_index`.
    """
    shown: dict[str, Any] = {
        SUMMARY: _summary(view, task),
        SCHEDULER: view["scheduler"],
        HISTORY: {"transitions": view["transitions"], "decisions": view["decisions"]},
        RESCALES: view["all_rescales"],
        DRIVER: view["driver"],
        POLICY: view.get("policy") or {},
    }
    return {key: value if fits(value) else {} for key, value in shown.items()}  # stores take no null


def fits(value: Any) -> bool:
    """Whether a store takes it."""
    return len(json.dumps(value)) <= MAX_VALUE_BYTES


def _summary(view: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
    told = ("job", "job_type", "state", "since", "outcome", "cause", "parallelism", "requirements", "slots", "urls")
    counts = {name: view[name] for name in ("restarts", "rescales", "attempt")}
    transitions = view["transitions"]
    return {
        "format": FORMAT,
        **{name: view[name] for name in told},
        **counts,
        "failures": len(view["failures"]),
        "bounds_by": view.get("bounds_by"),
        "last_transition": transitions[-1] if transitions else None,
        "task": dict(task),
    }
