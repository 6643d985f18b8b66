"""Jobs: which there are, what they do, and what is wished of them."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from airflow_adaptive.plugin.api import job_details
from airflow_adaptive.plugin.api.routes.common import requester
from airflow_adaptive.plugin.api.schemas import JobCollection, JobDetails, SchedulerStateName, Step
from airflow_adaptive.plugin.api.security import BodyDep, EditableJob, ReadableJob, SessionDep, UserDep, allowed
from airflow_adaptive.plugin.data import control_requests, metadata_database
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.plugin.data.published_state import all_mirrored, mirrored
from airflow_adaptive.runtime.publishing.documents import METRICS, SUMMARY
from airflow_adaptive.runtime.requirements.control_requests import DESIRED_STATE

router = APIRouter(tags=["Jobs"])

MOST_JOBS = 1000

KEYS = (SUMMARY, DESIRED_STATE, f"{METRICS}{Step.TEN_SECONDS}")
"""What a list shows of a job."""


@router.get("/jobs", operation_id="list_jobs", summary="List jobs")
def list_jobs(
    user: UserDep,
    session: SessionDep,
    state: Annotated[list[SchedulerStateName] | None, Query(description="In one of these states.")] = None,
    dag_id: Annotated[str | None, Query(max_length=250, description="Named by this DAG.")] = None,
    task_id: Annotated[str | None, Query(max_length=250, description="Run by a task of this name.")] = None,
    name_pattern: Annotated[
        str | None,
        Query(max_length=250, description="Part of the name; % stands for any characters, _ for one; case is ignored."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_JOBS)] = 50,
    offset: Annotated[int, Query(ge=0, le=1 << 31)] = 0,
) -> JobCollection:
    """List the jobs that you may read, by name."""
    jobs = [job for job in metadata_database.find_jobs(session) if _is_named(job, name_pattern, dag_id, task_id)]
    readable = allowed(user, jobs, "GET", session)
    if state is not None:
        seen = all_mirrored(readable, session, [SUMMARY])
        readable = [job for job, shown in zip(readable, seen, strict=True) if shown.summary.state in state]
    page = readable[offset : offset + limit]
    shown_jobs = map(job_details.item, page, all_mirrored(page, session, KEYS))
    return JobCollection(jobs=list(shown_jobs), total_entries=len(readable))


@router.get("/jobs/{job}", operation_id="get_job", summary="Get a job")
def get_job(user: UserDep, job: ReadableJob, session: SessionDep) -> JobDetails:
    """Tell all that is at hand of a job: state and clocks, bounds, options, and what is asked of it."""
    editable = bool(allowed(user, [job], "PUT", session))
    return job_details.details(job, mirrored(job, session), editable=editable)


@router.post("/jobs/{job}/cancel", operation_id="cancel_job", summary="Cancel", status_code=HTTPStatus.ACCEPTED)
def cancel_job(user: UserDep, job: EditableJob, session: SessionDep, _: BodyDep) -> JobDetails:
    """Have the job end for good, at a batch boundary. Asking again changes nothing."""
    control_requests.cancel(job, requester(user))
    return _after_change(job, session)


@router.post("/jobs/{job}/suspend", operation_id="suspend_job", summary="Suspend", status_code=HTTPStatus.ACCEPTED)
def suspend_job(user: UserDep, job: EditableJob, session: SessionDep, _: BodyDep) -> JobDetails:
    """Have the job stop with a savepoint, to be resumed later. Asking again changes nothing."""
    control_requests.suspend(job, requester(user))
    return _after_change(job, session)


@router.post("/jobs/{job}/resume", operation_id="resume_job", summary="Resume", status_code=HTTPStatus.ACCEPTED)
def resume_job(user: UserDep, job: EditableJob, session: SessionDep, _: BodyDep) -> JobDetails:
    """Have a suspended job go on from where it stopped: Airflow runs its task again. Asking again changes nothing."""
    control_requests.resume(job, requester(user))
    return _after_change(job, session)


def _after_change(job: Job, session: Session) -> JobDetails:
    session.commit()  # some databases would go on telling what was there when the request began
    return job_details.details(job, mirrored(job, session), editable=True)


def _is_named(job: Job, pattern: str | None, dag_id: str | None, task_id: str | None) -> bool:
    return (
        (pattern is None or _is_like(job.name, pattern))
        and (dag_id is None or dag_id in job.dag_ids)
        and (task_id is None or any(task == task_id and dag_id in (None, dag) for dag, task in job.tasks))
    )


def _is_like(name: str, pattern: str) -> bool:
    """Airflow's patterns, `ILIKE '%...%'`: part after part, so that no pattern takes long, as a regular expression might."""
    end = 0
    for part in pattern.split("%"):
        found = re.compile("".join("." if char == "_" else re.escape(char) for char in part), _FLAGS).search(name, end)
        if found is None:
            return False
        end = found.end()
    return True


_FLAGS = re.IGNORECASE | re.DOTALL
