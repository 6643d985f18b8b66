"""Rescales with the bodies of Flink 2.3's REST API (FLIP-487)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy.orm import Session

from airflow_adaptive._core.view import RESCALES, SCHEDULER
from airflow_adaptive._web.api import flink_rescales, rescale_schemas
from airflow_adaptive._web.api.routes.common import published_state
from airflow_adaptive._web.api.security import HistoryJob, MessagesJob, ReadableJob, SessionDep
from airflow_adaptive._web.data.errors import not_found
from airflow_adaptive._web.data.metadata_database.jobs import Job
from airflow_adaptive._web.data.published_state import PublishedState, read_published

router = APIRouter(tags=["Rescales"], prefix="/jobs/{job}/rescales")

KEYS = (RESCALES, SCHEDULER)

RescaleId = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-fA-F-]{1,36}$",
        description="UUID of the rescale, or its number.",
        examples=["7"],
    ),
]


@router.get("/config", operation_id="get_rescale_config", summary="Get the options of rescales")
def get_config(job: ReadableJob, session: SessionDep) -> rescale_schemas.RescaleConfig:
    """Get the options that decide when a job rescales."""
    return flink_rescales.config(published_state(job, _published(job, session)))


@router.get("/overview", operation_id="get_rescales_overview", summary="Get counts and the latest rescales")
def get_overview(job: MessagesJob, session: SessionDep) -> rescale_schemas.RescalesOverview:
    """Get the number of rescales, and the latest completed, failed and ignored rescale."""
    published = _published(job, session)
    return flink_rescales.overview(job.name, published.rescales, published.groups)


@router.get("/history", operation_id="get_rescale_history", summary="Get the history of rescales")
def get_history(job: MessagesJob, session: SessionDep) -> list[rescale_schemas.RescaleDetails]:
    """Get the recent rescales, newest first."""
    published = _published(job, session)
    return flink_rescales.history(job.name, published.rescales, published.groups)


@router.get("/summary", operation_id="get_rescales_summary", summary="Get statistics of rescales")
def get_summary(job: HistoryJob, session: SessionDep) -> rescale_schemas.RescalesSummary:
    """Get the number of rescales, their durations and their downtimes."""
    return flink_rescales.summary(_published(job, session).rescales)


@router.get("/details/{rescale_id}", operation_id="get_rescale", summary="Get a rescale")
def get_details(job: MessagesJob, session: SessionDep, rescale_id: RescaleId) -> rescale_schemas.RescaleDetails:
    """Get all details of a rescale, including the states of the scheduler."""
    published = _published(job, session)
    found = flink_rescales.find(job.name, published.rescales, rescale_id.lower())
    if found is None:
        raise not_found(f"The history of job {job.name!r} contains no rescale {rescale_id!r}.")
    return flink_rescales.details(job.name, found, published.groups)


def _published(job: Job, session: Session) -> PublishedState:
    return read_published(job, session, KEYS)
