"""Events of a job on which other DAGs are scheduled, derived from two successive summaries of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeGuard

from airflow_adaptive._airflow.process.job_state import ENDED
from airflow_adaptive._airflow.process.published_summary import PublishedSummary


class JobEvent(StrEnum):
    """Kinds of events."""

    RESCALED = "RESCALED"
    RESTARTED = "RESTARTED"
    """A restart after a failure."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"
    LAG_EXCEEDED = "LAG_EXCEEDED"
    """The lag behind the sources has exceeded `lag_alert_threshold`, or the brokers will delete unread rows soon."""


def event_position(summary: PublishedSummary) -> dict[str, Any]:
    """Return the part of a summary that changes with each event."""
    return {
        name: getattr(summary, name)
        for name in ("rescales", "restarts", "outcome", "since", "attempt", "lag_alert_since")
    }


def is_position(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a stored value is a position; the state store can contain anything."""
    return isinstance(value, Mapping) and all(type(value.get(name)) is int for name in ("rescales", "restarts"))


def events_since(position: Mapping[str, Any], summary: PublishedSummary) -> Iterator[JobEvent]:
    """Yield the events between an earlier position and a summary, at most one of each kind."""
    rescales, restarts = summary.rescales - position["rescales"], summary.restarts - position["restarts"]
    if rescales > 0:
        yield JobEvent.RESCALED
    if restarts > max(rescales, 0):
        yield JobEvent.RESTARTED
    if summary.lag_alert_since not in (None, position.get("lag_alert_since")):
        yield JobEvent.LAG_EXCEEDED
    outcome, since = summary.outcome, summary.since
    if outcome in ENDED and (outcome, since) != (position.get("outcome"), position.get("since")):
        yield JobEvent(outcome)


def event_payload(event: JobEvent, summary: PublishedSummary) -> dict[str, Any]:
    """Return the payload that a DAG receives with the event; small and encodable as JSON."""
    return {
        "event": event.value,
        "job": summary.job,
        "parallelism": summary.parallelism,
        "restarts": summary.restarts,
        "rescales": summary.rescales,
        "cause": summary.cause,
        "lag_s": summary.lag_alert_lag_s,
        "state": summary.status,
        "at": summary.last_transition_at,
        "reason": summary.last_transition_reason,
    }
