"""Who may do what: Airflow's own login, and its permissions on the DAGs that name a job.

This is the only module that imports Airflow's security dependencies. Nothing is possible without login. A job may be read by those
who may read every DAG that names its Asset, and changed by those who may edit every one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.common.db.common import SessionDep as SessionDep  # noqa: PLC0414  for the routes
from airflow.api_fastapi.core_api.security import get_user as get_user  # noqa: PLC0414  for the app
from airflow.configuration import conf
from fastapi import Depends, Path, Request
from sqlalchemy.orm import Session

from airflow_adaptive.plugin.api.problems import ProblemError, not_found
from airflow_adaptive.plugin.data import metadata_database
from airflow_adaptive.plugin.data.metadata_database import Job

MOST_BODY_BYTES: Final = 256 << 10
"""A larger body is refused before it is read."""

MOST_NAME_CHARACTERS: Final = 250

Method = Literal["GET", "PUT"]

UserDep = Annotated[BaseUser, Depends(get_user)]
"""The user; 401 without one."""

JobName = Annotated[
    str,
    Path(
        alias="job",
        min_length=1,
        max_length=MOST_NAME_CHARACTERS,
        pattern=r"^[^\x00-\x1f\x7f/\\]+$",
        description="Id of the job: the name of its Airflow Asset.",
        examples=["departures"],
    ),
]


def allowed(user: BaseUser, jobs: Iterable[Job], method: Method, session: Session) -> list[Job]:
    """Those jobs of which the user may read (GET) or edit (PUT) every DAG that names them."""
    named = list(jobs)
    dags = sorted({dag_id for job in named for dag_id in job.dag_ids})
    teams = metadata_database.teams_of(dags, session)
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
    """The job, which the user may read.

    Raises:
        ProblemError: there is none (404), or it may not be read (403).
    """
    return _permitted(user, name, "GET", session)


def editable_job(user: UserDep, name: JobName, session: SessionDep) -> Job:
    """The job, which the user may change.

    Raises:
        ProblemError: there is none (404), or it may not be changed (403).
    """
    return _permitted(user, name, "PUT", session)


def _permitted(user: BaseUser, name: str, method: Method, session: Session) -> Job:
    job = metadata_database.find_job(name, session)
    if job is None:
        raise not_found(f"There is no adaptive job {name!r}. A job is known from its first run on.")
    if not allowed(user, [job], method, session):
        right = "read" if method == "GET" else "edit"
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "forbidden",
            f"This needs the permission to {right} every DAG that names job {name!r}.",
        )
    return job


ReadableJob = Annotated[Job, Depends(readable_job)]
EditableJob = Annotated[Job, Depends(editable_job)]


# ---- what browsers send ---------------------------------------------------------------------------------------------


async def body_of(user: UserDep, request: Request) -> bytes:
    """The body of a request that may change something: JSON, small, and from no other site.

    It depends on the user, so nobody who is not logged in gets as far as this.

    Raises:
        ProblemError: 403, 413 or 415.
    """
    _refuse_foreign(request)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Send the header Content-Type: application/json, without a body as well: it keeps other sites' forms out.",
        )
    return await _limited(request)


BodyDep = Annotated[bytes, Depends(body_of)]


async def _limited(request: Request) -> bytes:
    told = request.headers.get("content-length", "0")
    if told.isdecimal() and int(told) > MOST_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> ProblemError:
    detail = f"The body is larger than {MOST_BODY_BYTES >> 10} KiB."
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail, headers={"Connection": "close"})


def _refuse_foreign(request: Request) -> None:
    """Refuse what a page of another site has a browser send, with the cookie of whoever looks at it.

    Raises:
        ProblemError: 403.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in ("same-origin", "none"):
        return
    if site == "cross-site" or (origin is not None and urlsplit(origin).netloc not in _own_hosts(request)):
        raise ProblemError(HTTPStatus.FORBIDDEN, "cross-site", "Pages of other sites may not change jobs.")


def _own_hosts(request: Request) -> set[str]:
    """What this server is called; no page can have a browser send other names of it."""
    told = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
    told.add(urlsplit(conf.get("api", "base_url", fallback="") or "").netloc)
    return {host for host in told if host}
