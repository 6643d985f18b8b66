"""Reads the published state of a job, waits for its states, and derives the events on which other DAGs are scheduled."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeGuard

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.process.job_control import JobControl
from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.process.published_summary import PublishedSummary
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.scheduler.state import Outcome
from airflow_adaptive._engine.clock import SystemClock

log = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=5)
"""Interval between two reads of the published state. Each read takes Airflow 12-30 ms."""

ENDED: Final = tuple(outcome.value for outcome in Outcome)
"""States of a job that has ended."""


async def wait_for_state(job: str, states: Sequence[str], until: datetime) -> dict[str, Any]:
    """Wait until the job is in one of the states, or until the deadline passes.

    Args:
        job: id of the job.
        states: names of states, or outcomes of a job that has ended.
        until: deadline.

    Returns:
        `status` ("reached" or "timeout"), and the `job`, its `state` and its `parallelism` at that time.
    """
    control, clock = JobControl(job), SystemClock()
    while True:
        summary = await read_summary(control)
        state, parallelism = (None, None) if summary is None else (summary.status, summary.parallelism)
        result = {"job": job, "state": state, "parallelism": parallelism}
        if state in states:
            return {"status": "reached", **result}
        if clock.now() >= until:
            return {"status": "timeout", **result}
        left = max((until - clock.now()).total_seconds(), 0.0)
        await clock.sleep(min(POLL_INTERVAL.total_seconds(), left))


async def read_summary(control: JobControl) -> PublishedSummary | None:
    """Return the published summary of a job; None if nothing is published, or if Airflow does not answer."""
    try:
        return await ProcessResources.current().store_access.read(control.summary)
    except (AirflowRuntimeError, StoreUnavailableError) as error:
        log.warning("Airflow does not answer: %s", error)
        return None


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
