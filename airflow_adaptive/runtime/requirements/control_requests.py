"""Encoded control requests: keys, documents, the rules "the override is cleared" and "the override is expired".

A control request asks a running job for another desired state or for other resource requirements. Two back ends store control
requests under the keys of this module: the asset state store of the Task SDK (`stores.control_requests`) and Airflow's metadata
database (`plugin.data.metadata_database`). The control loop, the REST API and the command line decode them with this module.

Each source of requests has a key of its own, whose document contains the request with its requester. A request is therefore one
write, which no other writer can lose. A request for resource requirements has the form of FLIP-291's request body:

    {
        "value": {"job": {"parallelism": {"lowerBound": 1, "upperBound": 4}}},
        "by": "alice", "via": "REST", "at": "2026-01-31T17:00:00+00:00", "until": "2026-01-31T18:00:00+00:00"
    }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from airflow_adaptive.ports import ControlRequests, DesiredState, Requester
from airflow_adaptive.scheduler.requirements import RESET_TO_DEFAULT, ParallelismRange, Requirements

DESIRED_STATE: Final = "desired_state"
"""Key of the desired state: `running`, `suspended` or `canceled`."""

REQUIREMENTS: Final = "requirements"
"""Key of the user's override of the resource requirements."""

CALENDAR: Final = "calendar"
"""Key of the resource requirements that the DAG of a calendar sets (`rescale_policy_dag`)."""

KEYS: Final = (DESIRED_STATE, REQUIREMENTS, CALENDAR)

BOUNDS: Final = ("lowerBound", "upperBound")
"""Fields of a vertex's parallelism in FLIP-291's request body."""

Bounds = Mapping[str, tuple[int, int]]
"""Vertex -> lower and upper bound; a bound of -1 stands for the default."""

Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """One control request, ready to be stored.

    Attributes:
        key: `DESIRED_STATE`, `REQUIREMENTS` or `CALENDAR`.
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


def encode_requirements(requirements: Requirements) -> dict[str, Any]:
    """Encode resource requirements as FLIP-291's request body."""
    return {
        vertex: {"parallelism": dict(zip(BOUNDS, (bounds.lower, bounds.upper), strict=True))}
        for vertex, bounds in requirements.items()
    }


def encode_clear(vertices: Iterable[str]) -> dict[str, Any]:
    """Return the request that clears the override: FLIP-291's reset of every bound of these vertices."""
    return encode_requirements(dict.fromkeys(vertices, ParallelismRange(RESET_TO_DEFAULT, RESET_TO_DEFAULT)))


def withdrawn(document: Any) -> dict[str, Any]:
    """Return the document that replaces a fulfilled request for a desired state. The document still names the requester."""
    known = document if isinstance(document, Mapping) else {}
    return {"value": None} | {name: known[name] for name in ("by", "via", "at") if name in known}


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode(documents: Mapping[str, Any]) -> ControlRequests:
    """Decode stored documents by key. A document that is missing or invalid counts as not requested."""
    user, calendar = documents.get(REQUIREMENTS), documents.get(CALENDAR)
    return ControlRequests(
        desired_state=decode_desired_state(documents.get(DESIRED_STATE)) or DesiredState.RUNNING,
        requirements=_valid(decode_bounds, requested_value(user)) or {},
        requester=decode_requester(user),
        calendar=_valid(decode_bounds, requested_value(calendar)) or {},
        calendar_requester=decode_requester(calendar),
    )


def requested_value(document: Any) -> Any:
    """Return the encoded request of a document, None if the document contains no request."""
    return document.get("value") if isinstance(document, Mapping) else None


def validate(key: str, document: Any) -> None:
    """Check the document of a key. Raises `ValueError` if the document contains neither a valid request nor a withdrawal."""
    value = requested_value(document)
    if key != DESIRED_STATE:
        decode_bounds(value)
    elif not _is_withdrawn(document):
        DesiredState(value)


def _is_withdrawn(document: Any) -> bool:
    return isinstance(document, Mapping) and "value" in document and document["value"] is None


def decode_desired_state(document: Any) -> DesiredState | None:
    """Return the requested desired state, None if the document contains none."""
    value = requested_value(document)
    return DesiredState(value) if isinstance(value, str) and value in {*DesiredState} else None


def decode_bounds(body: Any) -> Bounds:
    """Decode FLIP-291's request body without checking the bounds.

    Raises:
        ValueError: the value does not have the form of FLIP-291's request body.
    """
    try:
        found = {vertex: item["parallelism"] for vertex, item in body.items()}
        bounds = {vertex: (item["lowerBound"], item["upperBound"]) for vertex, item in found.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{body!r} does not have the form of FLIP-291's request body: {error!r}") from error
    odd = [bound for pair in bounds.values() for bound in pair if type(bound) is not int]
    if odd:
        raise ValueError(f"{body!r} has bounds that are not whole numbers: {odd}")
    return bounds


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
    resets = (RESET_TO_DEFAULT, RESET_TO_DEFAULT)
    return bool(requests.requirements) and all(tuple(pair) == resets for pair in requests.requirements.values())


def is_override_expired(requests: ControlRequests, now: datetime) -> bool:
    """Return whether the user's override has passed its expiry."""
    expires_at = requests.requester.expires_at
    return bool(requests.requirements) and expires_at is not None and expires_at <= now
