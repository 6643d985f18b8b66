"""The way to a job from other tasks and triggers: what it shows, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import DesiredState
from airflow_adaptive.runtime.publishing.documents import (
    ASKED,
    CALENDAR,
    DESIRED_STATE,
    REQUIREMENTS,
    SCHEDULER,
    SUMMARY,
)
from airflow_adaptive.runtime.requirements.request_bodies import accepted, body_of, require_rescalable
from airflow_adaptive.scheduler.errors import SnapshotError
from airflow_adaptive.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange
from airflow_adaptive.scheduler.snapshot import from_json
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.stores.change_marker import note

if TYPE_CHECKING:
    from pydantic import JsonValue

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
        self._ask(DESIRED_STATE, desired_state.value, by)

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
        body = body_of(accepted(asked, state))
        until = None if hold is None else (datetime.now(UTC) + hold).isoformat()
        self._ask(CALENDAR if calendar else REQUIREMENTS, asked, by, until)
        return body

    def _state(self) -> SchedulerState:
        try:
            return from_json(cast(Mapping[str, Any], self._store.get(SCHEDULER, {})))
        except SnapshotError as error:
            raise UnknownJobError(f"what job {self._job!r} shows of itself can't be read: {error}") from error

    def _ask(self, key: str, value: Any, by: str, until: str | None = None) -> None:
        told: dict[str, JsonValue] = {"by": by, "at": datetime.now(UTC).isoformat(), "via": "task"}
        if until is not None:
            told["until"] = until
        asked = self._store.get(ASKED, {})
        try:
            self._store.set(key, value)
            self._store.set(ASKED, {**(asked if isinstance(asked, dict) else {}), key: told})
        except AirflowRuntimeError as error:
            raise UnknownJobError(f"job {self._job!r} can't be asked: {error}") from error
        note(self._job)


def _asked(parallelism: Bounds | Mapping[str, Bounds] | None, state: SchedulerState) -> Mapping[str, Any]:
    """The body that asks for this."""
    if parallelism is None:
        parallelism = (RESET_TO_DEFAULT, RESET_TO_DEFAULT)
    if not isinstance(parallelism, Mapping):
        parallelism = dict.fromkeys((vertex.name for vertex in state.job.vertices), parallelism)
    return body_of({vertex: ParallelismRange.of(bounds) for vertex, bounds in parallelism.items()})
