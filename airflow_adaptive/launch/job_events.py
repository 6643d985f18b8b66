"""Events of a job on which other DAGs are scheduled, derived from two successive summaries of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from airflow_adaptive.launch.job_state import ENDED, published_state


class JobEvent(StrEnum):
    """Kinds of events."""

    RESCALED = "RESCALED"
    RESTARTED = "RESTARTED"
    """A restart after a failure."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"


def event_position(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a summary that changes with each event."""
    return {name: summary.get(name) for name in ("rescales", "restarts", "outcome", "since", "attempt")}


def events_since(position: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[JobEvent]:
    """The events between an earlier position and a summary, at most one of each kind."""
    rescales, restarts = (summary[name] - (position.get(name) or 0) for name in ("rescales", "restarts"))
    if rescales > 0:
        yield JobEvent.RESCALED
    if restarts > max(rescales, 0):
        yield JobEvent.RESTARTED
    outcome, since = summary["outcome"], summary["since"]
    if outcome in ENDED and (outcome, since) != (position.get("outcome"), position.get("since")):
        yield JobEvent(outcome)


def event_payload(event: JobEvent, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The payload that a DAG receives with the event; small and encodable as JSON."""
    last = summary.get("last_transition") or {}
    names = ("job", "parallelism", "restarts", "rescales", "cause")
    return {
        "event": event.value,
        **{name: summary.get(name) for name in names},
        "state": published_state(summary),
        "at": last.get("at"),
        "reason": last.get("reason"),
    }
