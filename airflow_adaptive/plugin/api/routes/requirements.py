"""Resource requirements (FLIP-291): reading, setting, and trying without setting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from airflow_adaptive.plugin.api import job_details, schemas
from airflow_adaptive.plugin.api.routes.common import requester, shown_state
from airflow_adaptive.plugin.api.security import BodyDep, EditableJob, ReadableJob, SessionDep, UserDep
from airflow_adaptive.plugin.data import control_requests
from airflow_adaptive.plugin.data.published_state import mirrored
from airflow_adaptive.runtime.publishing.documents import POLICY, SCHEDULER, SUMMARY
from airflow_adaptive.runtime.requirements import control_requests as control_request_documents
from airflow_adaptive.runtime.requirements import dry_run, request_bodies
from airflow_adaptive.runtime.requirements.control_requests import encode_requirements
from airflow_adaptive.runtime.requirements.request_bodies import version_of
from airflow_adaptive.scheduler.errors import RequirementsError
from airflow_adaptive.scheduler.requirements import Requirements

router = APIRouter(tags=["Resource requirements"])

KEYS = (*control_request_documents.KEYS, SUMMARY, SCHEDULER, POLICY)

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {"$ref": "#/components/schemas/VertexRequirements"},
                },
                "example": schemas.REQUIREMENTS_EXAMPLE,
            }
        },
    }
}
"""The body is read by hand, to tell all that is wrong with it; so FastAPI does not know it."""

ETAG = {
    "ETag": {
        "description": "Version of the requirements, for the header If-Match.",
        "schema": {"type": "string"},
        "example": '"2f6c1e0d9b8a7c54"',
    }
}

SHOWN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The requirements.",
        "headers": ETAG,
        "content": {"application/json": {"example": schemas.REQUIREMENTS_EXAMPLE}},
    }
}

IfMatch = Annotated[
    str | None,
    Header(
        max_length=1000,
        description="Entity tag of the requirements that you have read: if they are others by now, nothing is changed (412).",
        examples=['"2f6c1e0d9b8a7c54"'],
    ),
]

Lasts = Annotated[
    str | None,
    Query(
        alias="for",
        max_length=100,
        description="For how long they hold: a duration, as 2h or 30min, or seconds.",
        examples=["2h"],
    ),
]

Until = Annotated[
    str | None,
    Query(max_length=100, description="Until when they hold: ISO 8601 with a zone.", examples=["2026-01-31T18:00:00Z"]),
]


@router.get(
    "/jobs/{job}/resource-requirements",
    operation_id="get_resource_requirements",
    summary="Get the resource requirements",
    responses=SHOWN,
)
def get_requirements(job: ReadableJob, session: SessionDep, response: Response) -> schemas.Requirements:
    """Tell the bounds of every vertex: those that somebody has set, or else those of its policy, a calendar or the DAG."""
    seen = mirrored(job, session, KEYS)
    return _answer(seen.resolved_requirements(shown_state(job, seen), datetime.now(UTC)), response)


@router.put(
    "/jobs/{job}/resource-requirements",
    operation_id="put_resource_requirements",
    summary="Set the resource requirements",
    responses=SHOWN,
    openapi_extra=BODY,
)
def put_requirements(
    user: UserDep,
    job: EditableJob,
    body: BodyDep,
    response: Response,
    if_match: IfMatch = None,
    lasts: Lasts = None,
    until: Until = None,
) -> schemas.Requirements:
    """Set the bounds of every vertex, above all policies; a bound of -1 is reset to its default.

    The answer comes when they are persisted; the job follows within seconds. The same again changes nothing. They hold until they
    expire, are set anew, or are lifted: by DELETE, or by -1 for every bound.
    """
    expected, expires = _expectation(if_match), control_requests.expires(lasts, until)
    return _answer(control_requests.set_requirements(job, requester(user), _decoded(body), expected, expires), response)


@router.delete(
    "/jobs/{job}/resource-requirements",
    operation_id="delete_resource_requirements",
    summary="Lift the resource requirements that were set",
    status_code=HTTPStatus.NO_CONTENT,
)
def delete_requirements(user: UserDep, job: EditableJob, _: BodyDep) -> None:
    """Have the bounds hold no more that somebody has set: those of its policy, a calendar or the DAG come back."""
    control_requests.lift_requirements(job, requester(user))


@router.post(
    "/jobs/{job}/resource-requirements:preview",
    operation_id="preview_resource_requirements",
    summary="Try resource requirements without setting them",
    openapi_extra=BODY,
)
def preview_requirements(job: ReadableJob, session: SessionDep, body: BodyDep) -> schemas.Preview:
    """Tell what these bounds would lead to now, and why: the scheduler itself is asked. Nothing is changed.

    It is told for the slots that the job holds or was offered; if it asks for more, the cluster may have them.
    """
    seen = mirrored(job, session, KEYS)
    state = control_requests.check_rescalable(job, seen)
    requirements = control_requests.resolved_override(_decoded(body), state, seen)
    return job_details.preview(dry_run.preview(state, requirements, datetime.now(UTC)), state)


def _answer(requirements: Requirements, response: Response) -> schemas.Requirements:
    response.headers["ETag"] = f'"{version_of(requirements)}"'
    return {
        vertex: schemas.VertexRequirements.model_validate(item)
        for vertex, item in encode_requirements(requirements).items()
    }


def _decoded(body: bytes) -> Any:
    try:
        return request_bodies.read(body)
    except RequirementsError as error:
        raise control_requests.invalid(error) from error


def _expectation(if_match: str | None) -> Callable[[str], bool]:
    """Whether a version is one that the header allows (RFC 9110: strong comparison, so weak tags never match)."""
    if if_match is None or if_match.strip() == "*":
        return lambda _: True
    tags = {tag.strip() for tag in if_match.split(",")}
    return lambda version: f'"{version}"' in tags
