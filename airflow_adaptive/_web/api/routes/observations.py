"""Plan, metrics, transitions, failures and rescales of a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from airflow_adaptive._airflow.store.task_xcoms import BASE
from airflow_adaptive._core.scheduler.history.rescales import RescaleSummary, summarize
from airflow_adaptive._core.scheduler.timeline import Rescale
from airflow_adaptive._core.view import DRIVER, HISTORY, METRICS, RESCALES, SCHEDULER, SUMMARY
from airflow_adaptive._web.api import job_details, schemas
from airflow_adaptive._web.api.routes.common import published_state
from airflow_adaptive._web.api.security import DeploymentJob, HistoryJob, LogsJob, MessagesJob, ReadableJob, SessionDep
from airflow_adaptive._web.data.errors import not_found
from airflow_adaptive._web.data.job_files import DriverOutput, driver_output
from airflow_adaptive._web.data.published_state import Metrics, read_published

router = APIRouter(tags=["Observations"], prefix="/jobs/{job}")


@router.get("/plan", operation_id="get_plan", summary="Get the placement of the subtasks")
def get_plan(job: ReadableJob, session: SessionDep) -> schemas.PlanDetails:
    """Get the planned and effective parallelism, the slots, the executors and the placement of the subtasks."""
    published = read_published(job, session, (SCHEDULER, DRIVER))
    return job_details.plan(published_state(job, published), published)


@router.get("/deployment", operation_id="get_deployment", summary="Preview a deployment")
def get_deployment(job: DeploymentJob, session: SessionDep) -> schemas.Deployments:
    """Get what a deployment changes before it takes effect, and what its changes need: the staged one, and what the newest DAG declares."""
    published = read_published(job, session, job_details.DEPLOYMENT_KEYS)
    return job_details.deployments(published_state(job, published), published, session)


@router.get("/metrics", operation_id="get_metrics", summary="Get metrics over time")
def get_metrics(
    job: ReadableJob,
    session: SessionDep,
    step: Annotated[
        schemas.MetricsStep, Query(description="Resolution in seconds. The retention is 1 hour, 8 hours or 3 days.")
    ] = (schemas.MetricsStep.TEN_SECONDS),
    since: Annotated[
        int,
        Query(ge=0, le=1 << 40, description="Only steps that began at or after this time, in seconds since the epoch."),
    ] = 0,
) -> Metrics:
    """Get the metrics of the job, oldest first; empty if the job has not published metrics."""
    page = read_published(job, session, (f"{METRICS}{step.value}",)).metrics(step.value)
    if since and "at" in page.columns:
        at = page.columns.index("at")
        page.points = [point for point in page.points if isinstance(point[at], int) and point[at] >= since]
    return page


@router.get("/transitions", operation_id="get_transitions", summary="Get transitions and decisions")
def get_transitions(job: MessagesJob, session: SessionDep) -> schemas.TimelineDetails:
    """Get the state transitions and the decisions of the scheduler with their reasons, newest first."""
    published = read_published(job, session, (HISTORY,))
    return schemas.TimelineDetails(transitions=published.transitions[::-1], decisions=published.decisions[::-1])


@router.get("/failures", operation_id="get_failures", summary="Get failures")
def get_failures(job: LogsJob, session: SessionDep) -> schemas.Failures:
    """Get the recent failures with their root causes, newest first."""
    failures = read_published(job, session, (SCHEDULER,)).failures[::-1]
    return schemas.Failures(failures=failures, total_entries=len(failures))


@router.get("/driver-log", operation_id="get_driver_log", summary="Get the end of the driver's log")
def get_driver_log(
    job: LogsJob,
    session: SessionDep,
    lines: Annotated[int, Query(ge=1, le=1000, description="Last lines of each stream.")] = 200,
) -> DriverOutput:
    """Get the end of the output of the newest driver, from the cluster. 502 with the reason if the API server cannot read it."""
    return driver_output(job, read_published(job, session, (BASE, SUMMARY)), lines)


rescales_router = APIRouter(tags=["Rescales"], prefix="/jobs/{job}/rescales")

Number = Annotated[int, Path(ge=1, le=1 << 31, description="Number of the rescale.", examples=[7])]


@rescales_router.get("", operation_id="list_rescales", summary="List rescales")
def list_rescales(job: MessagesJob, session: SessionDep) -> schemas.Rescales:
    """List the recent rescales, newest first."""
    return schemas.Rescales(rescales=read_published(job, session, (RESCALES,)).rescales[::-1])


@rescales_router.get("/summary", operation_id="get_rescale_summary", summary="Get statistics of rescales")
def get_summary(job: HistoryJob, session: SessionDep) -> RescaleSummary:
    """Get the numbers of the recent rescales, their durations and their downtimes."""
    return summarize(read_published(job, session, (RESCALES,)).rescales)


@rescales_router.get("/{number}", operation_id="get_rescale", summary="Get a rescale")
def get_rescale(job: MessagesJob, session: SessionDep, number: Number) -> Rescale:
    """Get a recent rescale."""
    rescales = read_published(job, session, (RESCALES,)).rescales
    found = next((rescale for rescale in rescales if rescale.number == number), None)
    if found is None:
        raise not_found(f"The history of job {job.name!r} contains no rescale {number}.")
    return found
