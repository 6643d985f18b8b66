"""Rescales of a job: the records of the scheduler, by their numbers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from airflow_adaptive._core.scheduler.history.rescale_summary import RescaleSummary, summarize
from airflow_adaptive._core.scheduler.timeline import Rescale
from airflow_adaptive._core.view import RESCALES
from airflow_adaptive._web.api import schemas
from airflow_adaptive._web.api.security import HistoryJob, MessagesJob, SessionDep
from airflow_adaptive._web.data.errors import not_found
from airflow_adaptive._web.data.published_state import read_published

router = APIRouter(tags=["Rescales"], prefix="/jobs/{job}/rescales")

Number = Annotated[int, Path(ge=1, le=1 << 31, description="Number of the rescale.", examples=[7])]


@router.get("", operation_id="list_rescales", summary="List rescales")
def list_rescales(job: MessagesJob, session: SessionDep) -> schemas.Rescales:
    """List the recent rescales, newest first."""
    return schemas.Rescales(rescales=read_published(job, session, (RESCALES,)).rescales[::-1])


@router.get("/summary", operation_id="get_rescale_summary", summary="Get statistics of rescales")
def get_summary(job: HistoryJob, session: SessionDep) -> RescaleSummary:
    """Get the numbers of the recent rescales, their durations and their downtimes."""
    return summarize(read_published(job, session, (RESCALES,)).rescales)


@router.get("/{number}", operation_id="get_rescale", summary="Get a rescale")
def get_rescale(job: MessagesJob, session: SessionDep, number: Number) -> Rescale:
    """Get a recent rescale."""
    rescales = read_published(job, session, (RESCALES,)).rescales
    found = next((rescale for rescale in rescales if rescale.number == number), None)
    if found is None:
        raise not_found(f"The history of job {job.name!r} contains no rescale {number}.")
    return found
