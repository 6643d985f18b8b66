"""Jobs: lists, details, and requests to cancel, suspend and resume."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from airflow_adaptive._core.view import SUMMARY, SchedulerStateName, Summary
from airflow_adaptive._web.api import job_details
from airflow_adaptive._web.api.routes.common import requester, visible
from airflow_adaptive._web.api.schemas import JobCollection, JobDetails
from airflow_adaptive._web.api.security import (
    DISPLAYED,
    Access,
    BodyDep,
    EditableAccess,
    ReadableAccess,
    ResumableAccess,
    SessionDep,
    UserDep,
    is_editable,
    readable,
    rights_of,
)
from airflow_adaptive._web.data import user_requests
from airflow_adaptive._web.data.metadata_database import state_store
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_jobs, release
from airflow_adaptive._web.data.published_state import Health, PublishedState, read_all_published, read_published

router = APIRouter(tags=["Jobs"])

MAX_JOBS = 1000

HEALTHS: Final = [*Health]
"""All values, the worst first."""


@router.get("/jobs", operation_id="list_jobs", summary="List jobs")
def list_jobs(
    user: UserDep,
    session: SessionDep,
    state: Annotated[list[SchedulerStateName] | None, Query(description="Jobs in one of these states.")] = None,
    dag_id: Annotated[str | None, Query(max_length=250, description="Jobs that this DAG names.")] = None,
    task_id: Annotated[str | None, Query(max_length=250, description="Jobs of tasks with this id.")] = None,
    map_index: Annotated[
        int | None, Query(ge=-1, le=1 << 31, description="Jobs that this mapped task instance ran last.")
    ] = None,
    name_pattern: Annotated[
        str | None,
        Query(
            max_length=250,
            description="Part of the name. % matches any characters, _ matches one character. The case is ignored.",
        ),
    ] = None,
    order_by: Annotated[
        Literal["health", "-backlog", "-failures", "-input", "-lag_s", "-parallelism", "-processed"] | None,
        Query(
            description="The worst health or the largest value first; jobs without the value are last. An ended job has only health and failures."
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_JOBS)] = 50,
    offset: Annotated[int, Query(ge=0, le=1 << 31)] = 0,
) -> JobCollection:
    """List the jobs that you may read, sorted by name, or by a value and then by name."""
    named = [job for job in find_jobs(session) if _is_named(job, name_pattern, dag_id, task_id)]
    jobs = [job for job in readable(user, named, session) if dag_id is None or dag_id in job.dag_ids]
    if state is not None or map_index is not None:
        found = read_all_published(jobs, session, [SUMMARY])
        jobs = [job for job, it in zip(jobs, found, strict=True) if _is_selected(it.summary, state, map_index)]
    if order_by is not None:
        found = read_all_published(jobs, session, job_details.ITEM_KEYS)
        values = {job.name: _value(it, order_by.lstrip("-")) for job, it in zip(jobs, found, strict=True)}
        jobs.sort(key=lambda job: values[job.name], reverse=True)
    page = jobs[offset : offset + limit]
    rights = rights_of(user, page, session, DISPLAYED)
    items = [*map(job_details.item, page, read_all_published(page, session, job_details.ITEM_KEYS))]
    release(session)
    problem = state_store.backend_problem() or next((item.problem for item in items if item.problem), None)
    return JobCollection(jobs=[*map(visible, items, rights)], total_entries=len(jobs), problem=problem)


@router.get("/jobs/{job}", operation_id="get_job", summary="Get a job")
def get_job(user: UserDep, access: ReadableAccess, session: SessionDep) -> JobDetails:
    """Get all details of a job: state, deadlines, bounds, options and control requests."""
    return _details(access, session, is_editable(user, access.job, session))


@router.post("/jobs/{job}/cancel", operation_id="cancel_job", summary="Cancel", status_code=HTTPStatus.ACCEPTED)
def cancel_job(user: UserDep, access: EditableAccess, session: SessionDep, _: BodyDep) -> JobDetails:
    """Request that the job stops permanently at a batch boundary. Repeating the request changes nothing."""
    user_requests.cancel(access.job, requester(user), session)
    return _details(access, session, editable=True)


@router.post("/jobs/{job}/suspend", operation_id="suspend_job", summary="Suspend", status_code=HTTPStatus.ACCEPTED)
def suspend_job(user: UserDep, access: EditableAccess, session: SessionDep, _: BodyDep) -> JobDetails:
    """Request that the job stops at a batch boundary, so that it can be resumed. Repeating the request changes nothing."""
    user_requests.suspend(access.job, requester(user), session)
    return _details(access, session, editable=True)


@router.post("/jobs/{job}/resume", operation_id="resume_job", summary="Resume", status_code=HTTPStatus.ACCEPTED)
def resume_job(user: UserDep, access: ResumableAccess, session: SessionDep, _: BodyDep) -> JobDetails:
    """Request that a suspended job continues: Airflow runs its task again. Repeating the request changes nothing."""
    user_requests.resume(access.job, requester(user), session)
    return _details(access, session, editable=True)


def _details(access: Access, session: Session, editable: bool) -> JobDetails:
    published = read_published(access.job, session, job_details.KEYS)
    return visible(job_details.details(access.job, published, editable=editable), access.rights)


def _value(published: PublishedState, name: str) -> float:
    """Return the value by which a list is sorted, minus infinity if the job does not have it."""
    summary, metrics = published.summary, published.current_metrics
    if name == "failures":
        return summary.failures
    if name == "health":
        return -HEALTHS.index(published.health(datetime.now(UTC)))
    value: float | None = sum(summary.parallelism.values()) if summary.parallelism else None
    if name != "parallelism":
        value = getattr(metrics, name, None)
    if name == "backlog" and value is None:
        value = getattr(metrics, "unread_files", None)
    return -math.inf if value is None or summary.outcome is not None else value


def _is_selected(summary: Summary, state: Collection[str] | None, map_index: int | None) -> bool:
    task_index = None if summary.task is None else summary.task.map_index
    return (state is None or summary.state in state) and map_index in (None, task_index)


def _is_named(job: Job, pattern: str | None, dag_id: str | None, task_id: str | None) -> bool:
    return (
        (pattern is None or _is_like(job.name, pattern))
        and (dag_id is None or dag_id in job.dag_ids)
        and (task_id is None or any(task == task_id and dag_id in (None, dag) for dag, task in job.tasks))
    )


def _is_like(name: str, pattern: str) -> bool:
    """Airflow's patterns, `ILIKE '%...%'`. Matching part after part bounds the time, which one regular expression would not."""
    end = 0
    for part in pattern.split("%"):
        found = re.compile("".join("." if char == "_" else re.escape(char) for char in part), _FLAGS).search(name, end)
        if found is None:
            return False
        end = found.end()
    return True


_FLAGS = re.IGNORECASE | re.DOTALL
