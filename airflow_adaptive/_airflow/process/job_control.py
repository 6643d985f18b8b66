"""Access to a job from other tasks and triggers: its published summary, and control requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, cast

from airflow_adaptive._airflow.process.published_summary import PublishedSummary, decode_summary
from airflow_adaptive._airflow.store.control_requests import request_desired_state, store_request
from airflow_adaptive._airflow.store.job_asset import job_asset
from airflow_adaptive._core.requirements.control_requests import (
    CALENDAR,
    HANDLED,
    REQUIREMENTS,
    RESTORED,
    ControlRequest,
    DesiredState,
    Requester,
    reported_end,
)
from airflow_adaptive._core.requirements.request_bodies import admit, encode_requirements, require_rescalable
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import from_json
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import SCHEDULER, SUMMARY
from airflow_adaptive._engine.clock import SystemClock

VIA: Final = "task"
"""Interface through which tasks make requests, in the record of the requester."""

Bounds = int | Sequence[int]
"""Lower and upper bound of the parallelism of a vertex; a single number sets both."""


class UnknownJobError(ValueError):
    """The job is not known to Airflow, or has never run."""


class JobControl:
    """A job in Airflow's stores. All calls block."""

    def __init__(self, job: str) -> None:
        """Read nothing yet.

        Args:
            job: name of the job.
        """
        self._job = job
        self._store = job_asset(job).store

    def summary(self) -> PublishedSummary | None:
        """Return the published summary of the job, None if nothing is published.

        Raises:
            AirflowRuntimeError: Airflow does not answer.
        """
        document = self._store.get(SUMMARY)
        if isinstance(document, Mapping) and document.get("outcome"):
            return decode_summary(document)
        return decode_summary(document, reported_end({key: self._store.get(key) for key in (HANDLED, RESTORED)}))

    def known_summary(self) -> PublishedSummary:
        """Return the published summary of the job.

        Raises:
            UnknownJobError: the job is not known to Airflow, or has never run.
        """
        summary = self.summary()
        if summary is None:
            raise UnknownJobError(
                f"job {self._job!r} is not known to Airflow: check the id of the job. Before the first run of a job, only its DAG "
                "determines its bounds"
            )
        return summary

    def request_desired_state(self, desired_state: DesiredState, by: str) -> None:
        """Request that the job is suspended or canceled.

        Args:
            desired_state: requested state.
            by: requester, human-readable.

        Raises:
            AirflowRuntimeError: Airflow does not answer. A retry may help.
        """
        request_desired_state(self._job, desired_state, Requester(requested_by=by, via=VIA))

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
            AirflowRuntimeError: Airflow does not answer. A retry may help.
            UnknownJobError: the job is not known to Airflow, or has never run.
            NotRescalableError: the job rejects other bounds.
            RequirementsError: the bounds are invalid. The message lists all violations.
        """
        summary = self.known_summary()
        state = self._state()
        require_rescalable(self._job, state, summary.job_type, summary.outcome)
        requested = _requested_body(parallelism, state)
        body = encode_requirements(admit(requested, state))
        expires_at = None if duration is None else SystemClock().now() + duration
        self._request(CALENDAR if calendar else REQUIREMENTS, requested, by, expires_at)
        return body

    def _state(self) -> SchedulerState:
        try:
            return from_json(cast(Mapping[str, Any], self._store.get(SCHEDULER, {})))
        except SnapshotError as error:
            raise UnknownJobError(f"the published state of job {self._job!r} cannot be read: {error}") from error

    def _request(self, key: str, value: Any, by: str, expires_at: datetime | None = None) -> None:
        requester = Requester(requested_by=by, via=VIA, expires_at=expires_at)
        store_request(self._job, ControlRequest(key=key, value=value, requester=requester))


def _requested_body(parallelism: Bounds | Mapping[str, Bounds] | None, state: SchedulerState) -> Mapping[str, Any]:
    """Return the requested bounds in the form of FLIP-291."""
    if parallelism is None:
        parallelism = (RESET_TO_DEFAULT, RESET_TO_DEFAULT)
    if not isinstance(parallelism, Mapping):
        parallelism = dict.fromkeys((vertex.name for vertex in state.job.vertices), parallelism)
    return encode_requirements({vertex: ParallelismRange.of(bounds) for vertex, bounds in parallelism.items()})
