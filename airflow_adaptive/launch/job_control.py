"""The way to a job from other tasks and triggers: what it shows, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import DesiredState, Requester
from airflow_adaptive.runtime.publishing.documents import SCHEDULER, SUMMARY
from airflow_adaptive.runtime.requirements.control_requests import (
    CALENDAR,
    DESIRED_STATE,
    REQUIREMENTS,
    ControlRequest,
    encode_requirements,
)
from airflow_adaptive.runtime.requirements.request_bodies import accepted, require_rescalable
from airflow_adaptive.scheduler.errors import SnapshotError
from airflow_adaptive.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange
from airflow_adaptive.scheduler.snapshot import from_json
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.stores.control_requests import store_request

VIA: Final = "task"
"""Interface of the requests that tasks make, as the requester's record shows it."""

Bounds = int | Sequence[int]
"""Lower and upper bound of a vertex's parallelism; a single number for both."""


class UnknownJobError(ValueError):
    """Airflow knows no such job, or it has never run."""


class JobControl:
    """A job as Airflow's stores have it; all calls block."""

    def __init__(self, job: str) -> None:
        """Nothing is read yet.

        Args:
            job: id of the job.
        """
        self._job = job
        self._store = AssetStateStoreAccessor(name=job)

    def summary(self) -> Mapping[str, Any] | None:
        """Where the job stands (`runtime.publishing.documents`), None if it has not shown it.

        Raises:
            AirflowRuntimeError: Airflow can't be asked now.
        """
        found = self._store.get(SUMMARY)
        return found if isinstance(found, dict) and "state" in found else None

    def known(self) -> Mapping[str, Any]:
        """Where the job stands.

        Raises:
            UnknownJobError: it has never run.
        """
        summary = self.summary()
        if summary is None:
            raise UnknownJobError(
                f"job {self._job!r} is not known to Airflow: is that its name, and has it ever run? Before its first run its DAG "
                "decides"
            )
        return summary

    def request_desired_state(self, desired_state: DesiredState, by: str) -> None:
        """Ask for a suspension or the end.

        Args:
            desired_state: requested state.
            by: who asks, for people.
        """
        self._request(DESIRED_STATE, desired_state.value, by)

    def require(
        self,
        parallelism: Bounds | Mapping[str, Bounds] | None,
        by: str,
        hold: timedelta | None = None,
        *,
        calendar: bool = False,
    ) -> Mapping[str, Any]:
        """Ask for other bounds; return them as FLIP-291's body, complete.

        Args:
            parallelism: of every vertex, or of all alike; None to lift what was set before.
            by: who asks, for people.
            hold: for how long they hold, None until they are lifted.
            calendar: whether a calendar asks: what people have set wins over that.

        Raises:
            UnknownJobError: there is no such job, or it has never run.
            NotRescalableError: it can't have other bounds.
            RequirementsError: the bounds can't hold; listing everything that is wrong.
        """
        summary = self.known()
        state = self._state()
        require_rescalable(self._job, state, summary.get("job_type"), summary.get("outcome"))
        asked = _asked(parallelism, state)
        body = encode_requirements(accepted(asked, state))
        expires_at = None if hold is None else datetime.now(UTC) + hold
        self._request(CALENDAR if calendar else REQUIREMENTS, asked, by, expires_at)
        return body

    def _state(self) -> SchedulerState:
        try:
            return from_json(cast(Mapping[str, Any], self._store.get(SCHEDULER, {})))
        except SnapshotError as error:
            raise UnknownJobError(f"what job {self._job!r} shows of itself can't be read: {error}") from error

    def _request(self, key: str, value: Any, by: str, expires_at: datetime | None = None) -> None:
        requester = Requester(requested_by=by, via=VIA, expires_at=expires_at)
        try:
            store_request(self._job, ControlRequest(key=key, value=value, requester=requester))
        except AirflowRuntimeError as error:
            raise UnknownJobError(f"The request for job {self._job!r} cannot be stored: {error}") from error


def _asked(parallelism: Bounds | Mapping[str, Bounds] | None, state: SchedulerState) -> Mapping[str, Any]:
    """The body that asks for this."""
    if parallelism is None:
        parallelism = (RESET_TO_DEFAULT, RESET_TO_DEFAULT)
    if not isinstance(parallelism, Mapping):
        parallelism = dict.fromkeys((vertex.name for vertex in state.job.vertices), parallelism)
    return encode_requirements({vertex: ParallelismRange.of(bounds) for vertex, bounds in parallelism.items()})
