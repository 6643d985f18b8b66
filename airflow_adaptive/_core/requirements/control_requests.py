"""Encoded control requests: keys, documents, the rules "the override is cleared" and "the override is expired".

A control request asks a running job for another desired state or for other resource requirements. Two back ends store control
requests under the keys of this module: the asset state store of the Task SDK (`_airflow.store.control_requests`) and Airflow's metadata
database (`_web.data.metadata_database`). The control loop, the REST API and the command line decode them with this module.

Each writer has a key of its own, whose document contains the request with its requester. A request is therefore one write, which no other
writer can lose. A request for resource requirements has the form of FLIP-291's request body:

    {
        "value": {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}},
        "by": "alice", "via": "REST", "at": "2026-01-31T17:00:00+00:00", "until": "2026-01-31T18:00:00+00:00"
    }

Theory: the task of the job cannot change a request on condition that the request is still the one that it has read, because the Task SDK has
no conditional write. So it changes no request. It writes a document of its own, `HANDLED`, which contains the requests that have no effect any
more. A request that is accepted in the meantime is not among them, and stays open. It also contains when a request was missing: Airflow cannot read a
Variable after its Fernet key was replaced, and a request that can be read again was handled before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from airflow_adaptive._core.requirements.request_bodies import RESET, decode_bounds
from airflow_adaptive._core.scheduler.requirements import Requirements


class DesiredState(StrEnum):
    """State that users and programs request for the job (as `job.state` of the Flink Kubernetes operator)."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The author of a request for resource requirements.

    Attributes:
        requested_by: name of the author, "" if unknown.
        via: interface of the request, for display: "REST", "CLI", "task"; "" if unknown.
        expires_at: when the requirements expire, None if they apply until they are cleared.
    """

    requested_by: str = ""
    via: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequests:
    """All control requests of a job. They are levels, not edges: reading them again gives the same values.

    Attributes:
        desired_state: see `DesiredState`.
        requirements: bounds that a user has set, empty without any. The value -1 for all bounds clears the override.
        requester: author of `requirements`.
        calendar: likewise, bounds of a calendar that is a DAG of its own; `requirements` take precedence.
        calendar_requester: the calendar.
        is_read: whether the requests were read since the loop began; before that they are defaults.
        age: time since the read of the requests began, or since the loop began if the requests were not read.
    """

    desired_state: DesiredState = DesiredState.RUNNING
    requirements: Requirements = field(default_factory=dict)
    requester: Requester = Requester()
    calendar: Requirements = field(default_factory=dict)
    calendar_requester: Requester = Requester()
    is_read: bool = field(default=True, compare=False)
    age: timedelta = field(default=timedelta(0), compare=False)


DESIRED_STATE: Final = "desired_state"
"""Key of the desired state that a user requests: `running`, `suspended` or `canceled`."""

DESIRED_STATE_OF_TASKS: Final = "desired_state_of_tasks"
"""Key of the desired state that the task of another DAG requests, except a cancellation."""

CANCELLATION_OF_TASKS: Final = "cancellation_of_tasks"
"""Key of the cancellation that the task of another DAG requests: a later request of a task must not replace it."""

STATES: Final = (DESIRED_STATE, DESIRED_STATE_OF_TASKS, CANCELLATION_OF_TASKS)
"""Keys of the documents that request a desired state."""

HANDLED: Final = "handled_requests"
"""Key of the document of the job's own task: the requests for a desired state that it has handled, and the end of the job, if it has ended."""

RESTORED: Final = "restored_requests"
"""Key of the documents that the loop has stored again after Airflow emptied the store. The document of a key itself takes precedence."""

REQUIREMENTS: Final = "requirements"
"""Key of the user's override of the resource requirements."""

CALENDAR: Final = "calendar"
"""Key of the resource requirements that the DAG of a calendar sets (`rescale_policy_dag`)."""

DESIRED_STATE_KEYS: Final = (*STATES, HANDLED, RESTORED)
"""Keys of the documents that determine the desired state."""

KEYS: Final = (*DESIRED_STATE_KEYS, REQUIREMENTS, CALENDAR)

MAX_DELAY: Final = timedelta(minutes=5)
"""Longest time between the time of a request and its write, with the difference between the clocks of two machines. Kerberos allows as much."""

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """One control request, ready to be stored.

    Attributes:
        key: one of `STATES`, `REQUIREMENTS` or `CALENDAR`.
        value: encoded request.
        requester: user or task that makes the request; unknown by default.
    """

    key: str
    value: Any
    requester: Requester = Requester()

    def document(self, at: datetime) -> dict[str, Any]:
        """Encode the request with its requester; `at` is the time of the request."""
        requester, until = self.requester, self.requester.expires_at
        document = {"value": self.value, "by": requester.requested_by, "via": requester.via, "at": at.isoformat()}
        return document if until is None else {**document, "until": until.isoformat()}


# ---- encoding -------------------------------------------------------------------------------------------------------


def encode_handled(
    documents: Mapping[str, Any],
    end: Mapping[str, Any] | None,
    retried: str | None = None,
    missing: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the document `HANDLED` of a task that has handled the requests in these documents.

    Args:
        documents: the documents that the task has read, by key.
        end: the end of the job that the task reports: fields of the summary of the job; None while the task runs the job.
        retried: the task instance that runs the job again after this end, because Airflow retries it; None if it does not.
        missing: key of a request that the task has not found -> time before it was read (ISO 8601).
    """
    found = {"requests": [*_desired_state_documents(documents).values()], "is_running": end is None}
    found |= {"end": dict(end or {}), "missing": dict(missing or {})}
    return found if retried is None else {**found, "retried": retried}


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode(documents: Mapping[str, Any]) -> ControlRequests:
    """Decode stored documents by key. A document that is missing or invalid counts as not requested."""
    documents = with_restored(documents)
    user, calendar = documents.get(REQUIREMENTS), documents.get(CALENDAR)
    return ControlRequests(
        desired_state=decode_desired_state(documents) or DesiredState.RUNNING,
        requirements=_valid(decode_bounds, requested_value(user)) or {},
        requester=decode_requester(user),
        calendar=_valid(decode_bounds, requested_value(calendar)) or {},
        calendar_requester=decode_requester(calendar),
    )


def requested_value(document: Any) -> Any:
    """Return the encoded request of a document, None if the document contains no request."""
    return document.get("value") if isinstance(document, Mapping) else None


def validate(key: str, document: Any) -> None:
    """Check the document of a key. Raises `ValueError` if the document is invalid."""
    if key in (HANDLED, RESTORED):
        if not isinstance(document, Mapping):
            raise ValueError(f"{document!r} is not a JSON object")
    elif key in STATES:
        DesiredState(requested_value(document))
    else:
        decode_bounds(requested_value(document))


def with_restored(documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return stored documents by key, with the restored ones in place of those that are missing."""
    restored = documents.get(RESTORED)
    present = {key: document for key, document in documents.items() if document is not None}
    return {**restored, **present} if isinstance(restored, Mapping) else present


def decode_desired_state(documents: Mapping[str, Any]) -> DesiredState | None:
    """Return the requested desired state. Without an open request, return `RUNNING` while the task of the job runs it, else None.

    A cancellation cannot be undone, so it takes precedence. Of the other requests, the newest one counts.
    """
    found = open_requests(documents)
    states = [DesiredState(document["value"]) for document in found]
    if not states:
        return DesiredState.RUNNING if is_job_running(documents) else None
    return DesiredState.CANCELED if DesiredState.CANCELED in states else states[-1]


def open_requests(documents: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the valid requests for a desired state that the task of the job has not handled, oldest first."""
    handled, missing = (_handled(documents).get(name) for name in ("requests", "missing"))
    known, times = handled if isinstance(handled, list) else [], missing if isinstance(missing, Mapping) else {}
    found = [
        document
        for key, document in _desired_state_documents(documents).items()
        if document not in known and not _is_handled_before(document, times.get(key))
    ]
    return sorted(found, key=_time)


def _is_handled_before(document: Mapping[str, Any], missing_at: Any) -> bool:
    """Return whether a request is older than a time at which it could not be read."""
    made, missing = (_valid(_aware_time, at) for at in (document.get("at"), missing_at))
    return made is not None and missing is not None and made < missing - MAX_DELAY


def without_open(documents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the documents without the requests for a desired state that the task of the job has not handled."""
    found = open_requests(documents)
    return {key: document for key, document in with_restored(documents).items() if document not in found}


def retried_task(documents: Mapping[str, Any]) -> str | None:
    """Return the task instance that Airflow retries after the reported end of the job, None without one. The open requests apply to its next try."""
    found = _handled(documents).get("retried")
    return found if isinstance(found, str) else None


def is_job_running(documents: Mapping[str, Any]) -> bool:
    """Return whether the task of the job has started the job, and has not reported its end."""
    return _handled(documents).get("is_running") is True


def reported_end(documents: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of the summary with which the task of the job has reported the end of the job, None before that.

    The loop publishes them, too, if the store answers before the loop ends. No loop writes this document, so a late write of a loop does not
    let a job that has ended look alive.
    """
    end = None if is_job_running(documents) else _handled(documents).get("end")
    return end if isinstance(end, Mapping) and isinstance(end.get("outcome"), str) else None


def newest_requests(documents: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the newest request of each kind, whether it is open or not: key of the user's request -> document."""
    stored = with_restored(documents)
    states = sorted(_desired_state_documents(documents).values(), key=_time)
    found = {DESIRED_STATE: states[-1] if states else None} | {key: stored.get(key) for key in (REQUIREMENTS, CALENDAR)}
    return {key: document for key, document in found.items() if isinstance(document, Mapping)}


def _time(document: Mapping[str, Any]) -> str:
    return str(document.get("at") or "")


def _handled(documents: Mapping[str, Any]) -> Mapping[str, Any]:
    document = with_restored(documents).get(HANDLED)
    return document if isinstance(document, Mapping) else {}


def _desired_state_documents(documents: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the documents that request a desired state by key, whether they are open or not."""
    stored = with_restored(documents)
    found = {key: stored.get(key) for key in STATES}
    return {key: it for key, it in found.items() if isinstance(it, Mapping) and it.get("value") in [*DesiredState]}


def decode_requester(document: Any) -> Requester:
    """Return the requester in the document of a request; invalid fields count as unknown."""
    if not isinstance(document, Mapping):
        return Requester()
    by, via, until = (document.get(name) for name in ("by", "via", "until"))
    return Requester(requested_by=str(by or ""), via=str(via or ""), expires_at=_valid(_aware_time, until))


def _valid(decoder: Callable[[Any], Decoded], value: Any) -> Decoded | None:
    try:
        return decoder(value)
    except (TypeError, ValueError):
        return None


def _aware_time(text: Any) -> datetime | None:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is not None else None


# ---- rules ----------------------------------------------------------------------------------------------------------


def is_override_cleared(requests: ControlRequests) -> bool:
    """Return whether the user has reset every bound to its default."""
    return bool(requests.requirements) and all(bounds == RESET for bounds in requests.requirements.values())


def is_override_expired(requests: ControlRequests, now: datetime) -> bool:
    """Return whether the user's override has passed its expiry."""
    expires_at = requests.requester.expires_at
    return bool(requests.requirements) and expires_at is not None and expires_at <= now


def with_known(read: ControlRequests, known: ControlRequests) -> ControlRequests:
    """Return the requests that were read, with the known ones in place of missing ones.

    A user who clears an override stores a document, so a missing request was lost with the store, for example because Airflow's database
    was restored from a backup.
    """
    if not read.requirements:
        read = replace(read, requirements=known.requirements, requester=known.requester)
    if not read.calendar:
        read = replace(read, calendar=known.calendar, calendar_requester=known.calendar_requester)
    return read
