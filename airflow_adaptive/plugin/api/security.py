"""Access control: Airflow's login, and Airflow's permissions on the DAGs that name the Asset of a job.

This is the only module that imports Airflow's security dependencies. Every request requires a login. Reading a job requires the
permission to read every DAG that names the Asset of the job, and changing a job requires the permission to edit all of these DAGs.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.common.db.common import SessionDep as SessionDep  # noqa: PLC0414  the routes import it from here
from airflow.api_fastapi.core_api.security import get_user as get_user  # noqa: PLC0414  the app imports it from here
from airflow.configuration import conf
from fastapi import Depends, Path, Request
from sqlalchemy.orm import Session

from airflow_adaptive.plugin.data.errors import RequestRefusedError, not_found
from airflow_adaptive.plugin.data.metadata_database.jobs import Job, find_job, release, teams_of

MAX_BODY_BYTES: Final = 256 << 10
"""The server refuses a larger body before it reads the body."""

MAX_NAME_CHARACTERS: Final = 250

Method = Literal["GET", "PUT"]

UserDep = Annotated[BaseUser, Depends(get_user)]
"""The logged-in user; 401 without a login."""

JobName = Annotated[
    str,
    Path(
        alias="job",
        min_length=1,
        max_length=MAX_NAME_CHARACTERS,
        pattern=r"^[^\x00-\x1f\x7f/\\]+$",
        description="Id of the job, which is the name of its Airflow Asset.",
        examples=["departures"],
    ),
]


def allowed(user: BaseUser, jobs: Iterable[Job], method: Method, session: Session) -> list[Job]:
    """The jobs that the user may read (GET) or edit (PUT): the user has the permission for every DAG that names the job."""
    named = list(jobs)
    dags = sorted({dag_id for job in named for dag_id in job.dag_ids})
    teams = teams_of(dags, session)
    manager = get_auth_manager()
    granted = {
        dag_id
        for dag_id in dags
        if manager.is_authorized_dag(
            method=method, details=DagDetails(id=dag_id, team_name=teams.get(dag_id)), user=user
        )
    }
    return [job for job in named if job.dag_ids and granted.issuperset(job.dag_ids)]


def readable_job(user: UserDep, name: JobName, session: SessionDep) -> Job:
    """Return the job if the user may read the job.

    Raises:
        RequestRefusedError: the job does not exist (404), or the user does not have the permission (403).
    """
    return _permitted(user, name, "GET", session)


def editable_job(user: UserDep, name: JobName, session: SessionDep) -> Job:
    """Return the job if the user may change the job.

    Raises:
        RequestRefusedError: the job does not exist (404), or the user does not have the permission (403).
    """
    return _permitted(user, name, "PUT", session)


def _permitted(user: BaseUser, name: str, method: Method, session: Session) -> Job:
    job = find_job(name, session)
    if job is None:
        raise not_found(f"There is no adaptive job {name!r}. A job exists after its first run.")
    is_allowed = bool(allowed(user, [job], method, session))
    release(session)
    if not is_allowed:
        right = "read" if method == "GET" else "edit"
        raise RequestRefusedError(
            HTTPStatus.FORBIDDEN,
            "forbidden",
            f"You need the permission to {right} every DAG that names job {name!r}.",
        )
    return job


ReadableJob = Annotated[Job, Depends(readable_job)]
EditableJob = Annotated[Job, Depends(editable_job)]


# ---- request bodies -------------------------------------------------------------------------------------------------


async def body_of(user: UserDep, request: Request) -> bytes:
    """Return the body of a request that can change a job.

    The dependency on the user guarantees that the server reads no body without a login.

    Raises:
        RequestRefusedError: the request comes from another site (403), or the body is too large (413) or not JSON (415).
    """
    _refuse_foreign(request)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RequestRefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Send the header Content-Type: application/json, even without a body. The header blocks forms of other sites.",
        )
    return await _limited(request)


BodyDep = Annotated[bytes, Depends(body_of)]


async def _limited(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> RequestRefusedError:
    detail = f"The body is larger than {MAX_BODY_BYTES >> 10} KiB."
    return RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)


def _refuse_foreign(request: Request) -> None:
    """Refuse a request that a page of another site makes a browser send with the cookie of the user.

    Raises:
        RequestRefusedError: the request comes from another site (403).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in ("same-origin", "none"):
        return
    if site == "cross-site" or (origin is not None and urlsplit(origin).netloc not in _own_hosts(request)):
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "cross-site", "Pages of other sites may not change jobs.")


def _own_hosts(request: Request) -> set[str]:
    """Host names of this server. A page cannot make a browser send other host names."""
    hosts = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
    hosts.add(urlsplit(conf.get("api", "base_url", fallback="") or "").netloc)
    return {host for host in hosts if host}
