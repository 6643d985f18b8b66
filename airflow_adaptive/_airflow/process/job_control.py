"""Access to a job from other tasks and triggers: its published summary, its states and events, and control requests."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeGuard, cast

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._airflow.store.control_requests import request_desired_state, store_request
from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.ports import StoreUnavailableError
from airflow_adaptive._core.requirements.control_requests import (
    CALENDAR,
    HANDLED,
    REQUIREMENTS,
    RESTORED,
    ControlRequest,
    DesiredState,
    Requester,
)
from airflow_adaptive._core.requirements.request_bodies import admit, encode_requirements, require_rescalable
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import Outcome, SchedulerState
from airflow_adaptive._core.view import SCHEDULER, SUMMARY, Summary, decode_summary, summary_of
from airflow_adaptive._engine.clock import SystemClock

log = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(seconds=5)
"""Interval between two reads of the published state. Each read takes Airflow 12-30 ms."""

ENDED: Final = tuple(outcome.value for outcome in Outcome)
"""States of a job that has ended."""

VIA: Final = "task"
"""Interface through which tasks make requests, in the record of the requester."""

Bounds = int | Sequence[int]
"""Lower and upper bound of the parallelism of a vertex; a single number sets both."""


class UnknownJobError(ValueError):
    """The job is not known to Airflow, or has never run."""


class JobControl:
    """A job in Airflow's stores. All calls block, and raise `AirflowRuntimeError` if Airflow does not answer; a retry may help."""

    def __init__(self, job: str) -> None:
        self.job = job
        self._store = job_asset(job).store

    def summary(self) -> Summary | None:
        """Return the published summary of the job, None if nothing is published."""
        documents = {SUMMARY: self._store.get(SUMMARY)}
        if decode_summary(documents[SUMMARY]).outcome is None:
            documents |= {key: self._store.get(key) for key in (HANDLED, RESTORED)}
        summary = summary_of(documents)
        return None if summary == Summary() else summary

    def known_summary(self) -> Summary:
        """Return the published summary of the job. Raises `UnknownJobError`."""
        summary = self.summary()
        if summary is None:
            raise UnknownJobError(
                "Airflow does not know the job: check its id. Before the first run of a job, only its DAG determines its bounds"
            )
        return summary

    def request_desired_state(self, desired_state: DesiredState, by: str) -> None:
        """Request that the job is suspended or canceled. `by` is the requester, human-readable."""
        request_desired_state(self.job, desired_state, Requester(requested_by=by, via=VIA))

    def request_requirements(
        self,
        parallelism: Bounds | Mapping[str, Bounds] | None,
        by: str,
        duration: timedelta | None = None,
        *,
        calendar: bool,
    ) -> Mapping[str, Any]:
        """Request other bounds, and return the complete bounds in the form of FLIP-291.

        Args:
            parallelism: bounds of all vertices alike, or of every vertex; None clears the override.
            by: requester, human-readable.
            duration: time until the expiry of the request; None for a request that does not expire.
            calendar: whether the bounds are those of a calendar. The override of a user takes precedence over a calendar.

        Raises:
            UnknownJobError: the job is not known to Airflow, or has never run.
            NotRescalableError: the job rejects other bounds.
            RequirementsError: the bounds are invalid. The message lists all violations.
        """
        summary, state = self.known_summary(), self._state()
        require_rescalable(self.job, state, summary.job_type, summary.outcome)
        requested = _requested_body(parallelism, state)
        body = encode_requirements(admit(requested, state))
        expires_at = None if duration is None else SystemClock().now() + duration
        requester = Requester(requested_by=by, via=VIA, expires_at=expires_at)
        key = CALENDAR if calendar else REQUIREMENTS
        store_request(self.job, ControlRequest(key=key, value=requested, requester=requester))
        return body

    def _state(self) -> SchedulerState:
        try:
            return from_json(cast(Mapping[str, Any], self._store.get(SCHEDULER, {})))
        except SnapshotError as error:
            raise UnknownJobError(f"its published state cannot be read: {error}") from error


def _requested_body(parallelism: Bounds | Mapping[str, Bounds] | None, state: SchedulerState) -> Mapping[str, Any]:
    """Return the requested bounds in the form of FLIP-291."""
    if parallelism is None:
        parallelism = (RESET_TO_DEFAULT, RESET_TO_DEFAULT)
    if not isinstance(parallelism, Mapping):
        parallelism = dict.fromkeys((vertex.name for vertex in state.job.vertices), parallelism)
    return encode_requirements({vertex: ParallelismRange.of(bounds) for vertex, bounds in parallelism.items()})


async def wait_for_state(job: str, states: Sequence[str], until: datetime) -> dict[str, Any]:
    """Wait until the job is in one of the states, or until the deadline passes.

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


async def read_summary(control: JobControl) -> Summary | None:
    """Return the published summary of a job; None if nothing is published, or if Airflow does not answer."""
    try:
        return await ProcessResources.current().store_access.read(control.summary)
    except (AirflowRuntimeError, StoreUnavailableError) as error:
        log.warning("Airflow does not answer: %s", error)
        return None


class JobEvent(StrEnum):
    """Kinds of events on which other DAGs are scheduled."""

    RESCALED = "RESCALED"
    RESTARTED = "RESTARTED"
    """A restart after a failure."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"
    LAG_EXCEEDED = "LAG_EXCEEDED"
    """The lag behind the sources has exceeded `lag_alert_threshold`, or the brokers will delete unread rows soon."""


def event_position(summary: Summary) -> dict[str, Any]:
    """Return the part of a summary that changes with each event, as JSON."""
    names = ("rescales", "restarts", "outcome", "since", "attempt")
    position = {name: encode(getattr(summary, name)) for name in names}
    return position | {"lag_alert_since": encode(summary.lag_alert and summary.lag_alert.since)}


def is_position(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a stored value is a position; the state store can contain anything."""
    return isinstance(value, Mapping) and all(type(value.get(name)) is int for name in ("rescales", "restarts"))


def events_since(position: Mapping[str, Any], summary: Summary) -> Iterator[JobEvent]:
    """Yield the events between an earlier position and a summary, at most one of each kind."""
    newest = event_position(summary)
    rescales, restarts = summary.rescales - position["rescales"], summary.restarts - position["restarts"]
    if rescales > 0:
        yield JobEvent.RESCALED
    if restarts > max(rescales, 0):
        yield JobEvent.RESTARTED
    if newest["lag_alert_since"] not in (None, position.get("lag_alert_since")):
        yield JobEvent.LAG_EXCEEDED
    if summary.outcome and any(newest[name] != position.get(name) for name in ("outcome", "since")):
        yield JobEvent(summary.outcome.value)


def event_payload(event: JobEvent, job: str, summary: Summary) -> dict[str, Any]:
    """Return the payload that a DAG receives with the event; small and encodable as JSON."""
    last, alert = summary.last_transition, summary.lag_alert
    return {
        "event": event.value,
        "job": job,
        "parallelism": summary.parallelism,
        "restarts": summary.restarts,
        "rescales": summary.rescales,
        "cause": summary.cause,
        "lag_s": None if alert is None else alert.lag_s,
        "state": summary.status,
        "at": None if last is None else last.at.isoformat(),
        "reason": None if last is None else last.reason,
    }
