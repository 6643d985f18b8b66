"""What a job did and does: plan, figures, transitions, failures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from airflow_adaptive.plugin.api import job_details, schemas
from airflow_adaptive.plugin.api.routes.common import shown_state
from airflow_adaptive.plugin.api.security import ReadableJob, SessionDep
from airflow_adaptive.plugin.data.published_state import mirrored
from airflow_adaptive.runtime.publishing.documents import DRIVER, HISTORY, METRICS, SCHEDULER

router = APIRouter(tags=["Observations"], prefix="/jobs/{job}")


@router.get("/plan", operation_id="get_plan", summary="Where the subtasks run")
def get_plan(job: ReadableJob, session: SessionDep) -> schemas.Plan:
    """Tell the vertices as planned and as they run, slots, executors, and which subtasks lie where."""
    seen = mirrored(job, session, (SCHEDULER, DRIVER))
    return job_details.plan(shown_state(job, seen), seen)


@router.get("/metrics", operation_id="get_metrics", summary="Figures over time")
def get_metrics(
    job: ReadableJob,
    session: SessionDep,
    step: Annotated[schemas.Step, Query(description="Resolution, seconds: an hour, 8 hours or 3 days are kept.")] = (
        schemas.Step.TEN_SECONDS
    ),
    since: Annotated[
        int, Query(ge=0, le=1 << 40, description="Of steps that began at or after this epoch second.")
    ] = 0,
) -> schemas.Metrics:
    """Tell figures of the job, oldest first; none if it has shown none."""
    page = mirrored(job, session, (f"{METRICS}{step.value}",)).figures(step.value)
    if since and "at" in page.columns:
        at = page.columns.index("at")
        page.points = [point for point in page.points if isinstance(point[at], int) and point[at] >= since]
    return page


@router.get("/transitions", operation_id="get_transitions", summary="What the scheduler did and why")
def get_transitions(job: ReadableJob, session: SessionDep) -> schemas.Timeline:
    """Tell changes of state, and decisions to do something or nothing, the newest first."""
    seen = mirrored(job, session, (HISTORY,))
    return schemas.Timeline(transitions=seen.transitions[::-1], decisions=seen.decisions[::-1])


@router.get("/failures", operation_id="get_failures", summary="What went wrong")
def get_failures(job: ReadableJob, session: SessionDep) -> schemas.Failures:
    """Tell failures with their root causes, the newest first."""
    state = mirrored(job, session, (SCHEDULER,)).state
    failures = job_details.failures(state)[::-1]
    return schemas.Failures(failures=failures, total_entries=len(failures))
