"""Resource requirements (FLIP-291): read, set, clear and preview."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from airflow_adaptive._core.requirements import control_requests, dry_run, request_bodies
from airflow_adaptive._core.requirements.request_bodies import encode_requirements, version_of
from airflow_adaptive._core.scheduler.errors import RequirementsError
from airflow_adaptive._core.scheduler.requirements import Requirements
from airflow_adaptive._core.view import POLICY, SCHEDULER, SUMMARY
from airflow_adaptive._web.api import job_details, schemas
from airflow_adaptive._web.api.routes.common import published_state, requester
from airflow_adaptive._web.api.security import BodyDep, EditableJob, ReadableJob, SessionDep, UserDep
from airflow_adaptive._web.data import user_requests
from airflow_adaptive._web.data.published_state import read_published

router = APIRouter(tags=["Resource requirements"])

KEYS = (*control_requests.KEYS, SUMMARY, SCHEDULER, POLICY)
"""Documents that decide which requirements are active."""

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
"""The OpenAPI description of the request body. The routes decode the body themselves in order to report all violations."""

ETAG = {
    "ETag": {
        "description": "Version of the requirements, for the header If-Match.",
        "schema": {"type": "string"},
        "example": '"2f6c1e0d9b8a7c54"',
    }
}

RESPONSES: dict[int | str, dict[str, Any]] = {
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
        description="Entity tag of the requirements that you have read. If the requirements have changed since then, the request fails (412).",
        examples=['"2f6c1e0d9b8a7c54"'],
    ),
]

Duration = Annotated[
    str | None,
    Query(
        max_length=100,
        description="Time until the bounds expire: a duration such as 2h or 30min, or seconds.",
        examples=["2h"],
    ),
]

Until = Annotated[
    str | None,
    Query(
        max_length=100,
        description="Time at which the bounds expire: ISO 8601 with a time zone.",
        examples=["2026-01-31T18:00:00Z"],
    ),
]


@router.get(
    "/jobs/{job}/resource-requirements",
    operation_id="get_resource_requirements",
    summary="Get the resource requirements",
    responses=RESPONSES,
)
def get_requirements(job: ReadableJob, session: SessionDep, response: Response) -> schemas.Requirements:
    """Get the bounds of every vertex, as set by a user, the rescale policy, a calendar or the DAG, in this order."""
    published = read_published(job, session, KEYS)
    return _with_etag(published.resolved_requirements(published_state(job, published), datetime.now(UTC)), response)


@router.put(
    "/jobs/{job}/resource-requirements",
    operation_id="put_resource_requirements",
    summary="Set the resource requirements",
    responses=RESPONSES,
    openapi_extra=BODY,
)
def put_requirements(
    user: UserDep,
    job: EditableJob,
    session: SessionDep,
    body: BodyDep,
    response: Response,
    if_match: IfMatch = None,
    duration: Duration = None,
    until: Until = None,
) -> schemas.Requirements:
    """Set the bounds of every vertex. The bounds override all other sources. -1 resets a bound to its default.

    The server responds after it has persisted the bounds, and the job applies the bounds within seconds. Repeating the request changes
    nothing. The bounds apply until they expire, until a user sets other bounds, or until a user clears them with DELETE or with -1 for
    every bound.
    """
    is_expected, expires_at = _expectation(if_match), user_requests.expiry_of(duration, until)
    requirements = user_requests.set_requirements(
        job, requester(user), session, _decoded(body), is_expected, expires_at
    )
    return _with_etag(requirements, response)


@router.delete(
    "/jobs/{job}/resource-requirements",
    operation_id="delete_resource_requirements",
    summary="Clear the requirements override",
    status_code=HTTPStatus.NO_CONTENT,
)
def delete_requirements(user: UserDep, job: EditableJob, session: SessionDep, _: BodyDep) -> None:
    """Clear the bounds that a user set. The bounds of the rescale policy, a calendar or the DAG become active again."""
    user_requests.clear_requirements(job, requester(user), session)


@router.post(
    "/jobs/{job}/resource-requirements:preview",
    operation_id="preview_resource_requirements",
    summary="Preview resource requirements",
    openapi_extra=BODY,
)
def preview_requirements(job: ReadableJob, session: SessionDep, body: BodyDep) -> schemas.RequirementsPreview:
    """Get the consequence of these bounds at this moment, and the reason. A dry run of the scheduler changes nothing.

    The dry run uses the slots that the job holds or was offered. The cluster may have more slots.
    """
    published = read_published(job, session, KEYS)
    state = user_requests.check_rescalable(job, published)
    requirements = user_requests.resolved_override(_decoded(body), state, published)
    return job_details.preview(dry_run.preview(state, requirements, datetime.now(UTC)), state)


def _with_etag(requirements: Requirements, response: Response) -> schemas.Requirements:
    response.headers["ETag"] = f'"{version_of(requirements)}"'
    encoded: schemas.Requirements = encode_requirements(requirements)
    return encoded


def _decoded(body: bytes) -> Any:
    try:
        return request_bodies.parse_json(body)
    except RequirementsError as error:
        raise user_requests.invalid(error) from error


def _expectation(if_match: str | None) -> Callable[[str], bool]:
    """Return a function that compares versions with the header (RFC 9110: strong comparison, so weak tags never match)."""
    if if_match is None or if_match.strip() == "*":
        return lambda _: True
    tags = {tag.strip() for tag in if_match.split(",")}
    return lambda version: f'"{version}"' in tags
