"""Access control: Airflow's login, and Airflow's permissions on the DAGs whose tasks run a job.

This is the only module that imports Airflow's security dependencies. Every request requires a login. The DAGs whose tasks run a job
decide who may read and change the job. A DAG that is only scheduled on the Asset of the job decides nothing, so its author cannot lock
out the owners of the job. A job that a user may not read does not exist for this user.

A request that can change a job must come from the page or have a token, and its body is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request
from sqlalchemy.orm import Session

from airflow_adaptive._airflow.internals import (
    BaseUser,
    DagAccessEntity,
    DagDetails,
    IsAuthorizedDagRequest,
    ResourceMethod,
    conf,
    get_auth_manager,
    teams_of_dags,
)
from airflow_adaptive._airflow.internals import SessionDep as SessionDep  # noqa: PLC0414  the routes import it from here
from airflow_adaptive._airflow.internals import get_user as get_user  # noqa: PLC0414  the app imports it from here
from airflow_adaptive._web.data.errors import RequestRefusedError, not_found
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_job, release

MAX_NAME_CHARACTERS: Final = 700

UserDep = Annotated[BaseUser, Depends(get_user)]
"""The logged-in user; 401 without a login."""

JobName = Annotated[
    str,
    Path(
        alias="job",
        min_length=1,
        max_length=MAX_NAME_CHARACTERS,
        pattern=r"^[^\x00-\x1f\x7f/\\]+$",
        description="Name of the job: its id, or `<DAG id>:<task id>:<id>` for a job of a mapped task.",
        examples=["departures"],
    ),
]


class Right(Enum):
    """A right beside the right to read a job. The value is what Airflow's own API requires for the same data or action."""

    EDIT = (("PUT", None),)
    """Change the requirements, cancel and suspend."""

    CLEAR = (("PUT", DagAccessEntity.TASK_INSTANCE),)
    """Clear the task of a suspended job."""

    TASK = (("GET", DagAccessEntity.RUN), ("GET", DagAccessEntity.TASK_INSTANCE))
    """See the task instance that runs the job."""

    HISTORY = (("GET", DagAccessEntity.XCOM),)
    """See transitions, decisions and rescales, which are also XComs of the task."""

    LOGS = (("GET", DagAccessEntity.TASK_LOGS),)
    """See failures, messages that quote failures, and the addresses of the output of the driver."""


NEEDED: Final[Mapping[Right, str]] = {
    Right.EDIT: "edit",
    Right.CLEAR: "clear task instances of",
    Right.TASK: "read the task instances of",
    Right.HISTORY: "read the XComs of",
    Right.LOGS: "read the task logs of",
}
"""Right -> permission that a user needs on every DAG that runs the job."""

DISPLAYED: Final = (Right.TASK, Right.HISTORY, Right.LOGS)
"""Rights that decide which fields of a job a user sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A job that a user may read, with the DAGs and the rights of the user, as far as the route needs them."""

    job: Job
    rights: frozenset[Right]


def readable(user: BaseUser, jobs: Iterable[Job], session: Session) -> list[Job]:
    """Return the jobs that the user may read, with the DAGs that the user may read."""
    found = list(jobs)
    dags = _granted(user, {dag_id for job in found for dag_id in job.dag_ids}, session)
    return [
        job if dags.issuperset(job.dag_ids) else replace(job, dag_ids=job.dag_ids & dags)
        for job in found
        if dags.issuperset(job.runner_dag_ids)
    ]


def rights_of(
    user: BaseUser, jobs: Collection[Job], session: Session, rights: Collection[Right]
) -> list[frozenset[Right]]:
    """Return the rights of the user on each job: one call of the auth manager for a user who has all rights on all jobs.

    Otherwise, the auth manager checks each right, first for the DAGs of all jobs, and then for fewer DAGs while it refuses.
    """
    if not rights:
        return [frozenset() for _ in jobs]
    dags = frozenset(dag_id for job in jobs for dag_id in job.runner_dag_ids)
    teams = _teams(dags, session)
    if _has(user, dags, rights, teams):
        return [frozenset(rights) for _ in jobs]
    sets = sorted({job.runner_dag_ids for job in jobs}, key=sorted)
    granted = {right: _granted_sets(user, sets, right, teams) for right in rights}
    return [frozenset(right for right in rights if job.runner_dag_ids in granted[right]) for job in jobs]


def _granted_sets(
    user: BaseUser, sets: Sequence[frozenset[str]], right: Right, teams: Mapping[str, str | None]
) -> set[frozenset[str]]:
    """Return the sets of DAGs on which the user has the right.

    A batch has one answer for all of its sets. Each refusal halves the next batch and each grant doubles it, so a few refused sets take
    a few calls, and refused sets take about one call each.
    """
    granted: set[frozenset[str]] = set()
    position, size = 0, len(sets)
    while position < len(sets):
        batch = sets[position : position + size]
        is_granted = _has(user, frozenset().union(*batch), [right], teams)
        granted.update(batch if is_granted else ())
        position += len(batch) if is_granted or len(batch) == 1 else 0
        size = 2 * size if is_granted else max(1, len(batch) // 2)
    return granted


def _has(user: BaseUser, dags: Iterable[str], rights: Iterable[Right], teams: Mapping[str, str | None]) -> bool:
    """Return whether the user has these rights on these DAGs."""
    return _are_authorized(
        user,
        [
            (method, entity, DagDetails(id=dag_id, team_name=teams.get(dag_id)))
            for dag_id in sorted(dags)
            for right in rights
            for method, entity in right.value
        ],
    )


def _are_authorized(
    user: BaseUser, requests: Iterable[tuple[ResourceMethod, DagAccessEntity | None, DagDetails]]
) -> bool:
    batch: list[IsAuthorizedDagRequest] = [
        {"method": method, "access_entity": entity, "details": details} for method, entity, details in requests
    ]
    return not batch or get_auth_manager().batch_is_authorized_dag(batch, user=user)


def _teams(dags: Iterable[str], session: Session) -> Mapping[str, str | None]:
    """Return the teams of the DAGs, and release the connection: the auth manager may be a remote service that responds slowly."""
    teams = teams_of_dags(sorted(dags), session)
    release(session)
    return teams


def _granted(user: BaseUser, dags: Collection[str], session: Session) -> frozenset[str]:
    """Return the DAGs that the user may read: one call of the auth manager if these are all DAGs, and else one call for each team."""
    teams = _teams(dags, session)
    details = [DagDetails(id=dag_id, team_name=teams.get(dag_id)) for dag_id in sorted(dags)]
    if _are_authorized(user, (("GET", None, one) for one in details)):
        return frozenset(dags)
    by_team: dict[str | None, set[str]] = {}
    for dag_id in dags:
        by_team.setdefault(teams.get(dag_id), set()).add(dag_id)
    manager = get_auth_manager()
    return frozenset().union(
        *(
            # Airflow 3.1 has no teams.
            manager.filter_authorized_dag_ids(
                dag_ids=dag_ids, user=user, method="GET", **({} if team is None else {"team_name": team})
            )
            for team, dag_ids in by_team.items()
        )
    )


def access_with(*required: Right) -> Callable[[BaseUser, str, Session], Access]:
    """Return a dependency that returns a job if the user may read the job and has these rights.

    The dependency raises `RequestRefusedError` if the job does not exist for the user (404), or if the user does not have a right (403).
    """

    def access(user: UserDep, name: JobName, session: SessionDep) -> Access:
        job = _readable_job(user, name, session)
        _require(user, job, required, session)
        (rights,) = rights_of(user, [job], session, DISPLAYED)
        return Access(job=job, rights=rights.union(required))

    return access


def job_with(*required: Right) -> Callable[[BaseUser, str, Session], Job]:
    """Return a dependency as `access_with` does, for routes that need no other right."""

    def job(user: UserDep, name: JobName, session: SessionDep) -> Job:
        found = _readable_job(user, name, session)
        _require(user, found, required, session)
        return found

    return job


def is_editable(user: BaseUser, job: Job, session: Session) -> bool:
    """Return whether the user may change the job."""
    (rights,) = rights_of(user, [job], session, [Right.EDIT])
    return bool(rights)


def _readable_job(user: BaseUser, name: str, session: Session) -> Job:
    job = find_job(name, session)
    found = readable(user, [] if job is None else [job], session)
    if not found:
        raise not_found(f"There is no adaptive job {name!r} that you may read. A job exists after its first run.")
    return found[0]


def _require(user: BaseUser, job: Job, required: Sequence[Right], session: Session) -> None:
    (rights,) = rights_of(user, [job], session, required)
    missing = next((right for right in required if right not in rights), None)
    if missing is not None:
        detail = f"You need the permission to {NEEDED[missing]} every DAG that runs job {job.name!r}."
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "forbidden", detail)


ReadableJob = Annotated[Job, Depends(job_with())]
EditableJob = Annotated[Job, Depends(job_with(Right.EDIT))]
HistoryJob = Annotated[Job, Depends(job_with(Right.HISTORY))]
LogsJob = Annotated[Job, Depends(job_with(Right.LOGS))]
DeploymentJob = Annotated[Job, Depends(job_with(Right.TASK, Right.LOGS))]
MessagesJob = Annotated[Job, Depends(job_with(Right.HISTORY, Right.LOGS))]
ReadableAccess = Annotated[Access, Depends(access_with())]
EditableAccess = Annotated[Access, Depends(access_with(Right.EDIT))]
ResumableAccess = Annotated[Access, Depends(access_with(Right.EDIT, Right.CLEAR))]


MAX_BODY_BYTES: Final = 64 << 10
"""The server refuses a larger body before it reads the body. Airflow has the same limit for a value of a state store."""


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

    A page of an origin that Airflow's configuration allows may send a request with a token. Airflow then ignores the cookie.

    Raises:
        RequestRefusedError: the request comes from another site (403).
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    has_token = request.headers.get("authorization", "").lower().startswith("bearer ")
    allowed = conf.getlist("api", "access_control_allow_origins", fallback=[]) or []
    if site in ("same-origin", "none") or (has_token and origin in allowed):
        return
    if site == "cross-site" or (origin is not None and urlsplit(origin).netloc not in _own_hosts(request)):
        raise RequestRefusedError(HTTPStatus.FORBIDDEN, "cross-site", "Pages of other sites may not change jobs.")


def _own_hosts(request: Request) -> set[str]:
    """Host names of this server. A page cannot make a browser send other host names."""
    hosts = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
    hosts.add(urlsplit(conf.get("api", "base_url", fallback="") or "").netloc)
    return {host for host in hosts if host}
