"""Rescales, as Flink 2.3's REST API tells them (FLIP-487)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from sqlalchemy.orm import Session

from airflow_adaptive.plugin.api import flink_rescales, rescale_schemas
from airflow_adaptive.plugin.api.problems import not_found
from airflow_adaptive.plugin.api.routes.common import shown_state
from airflow_adaptive.plugin.api.security import ReadableJob, SessionDep
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.plugin.data.published_state import Mirrored, mirrored
from airflow_adaptive.runtime.publishing.documents import RESCALES, SCHEDULER

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


@router.get("/config", operation_id="get_rescale_config", summary="Options that rescales depend on")
def get_config(job: ReadableJob, session: SessionDep) -> rescale_schemas.RescaleConfig:
    """Tell the options that decide when a job rescales."""
    return flink_rescales.config(shown_state(job, _seen(job, session)))


@router.get("/overview", operation_id="get_rescales_overview", summary="Counts, and the latest of each kind")
def get_overview(job: ReadableJob, session: SessionDep) -> rescale_schemas.RescalesOverview:
    """Tell how many rescales there were, and the latest that was completed, failed and ignored."""
    seen = _seen(job, session)
    return flink_rescales.overview(job.name, seen.rescales, seen.groups)


@router.get("/history", operation_id="get_rescale_history", summary="Rescales, the newest first")
def get_history(job: ReadableJob, session: SessionDep) -> list[rescale_schemas.RescaleDetails]:
    """Tell the rescales that are remembered, the newest first."""
    seen = _seen(job, session)
    return flink_rescales.history(job.name, seen.rescales, seen.groups)


@router.get("/summary", operation_id="get_rescales_summary", summary="Rescales in figures")
def get_summary(job: ReadableJob, session: SessionDep) -> rescale_schemas.RescalesSummary:
    """Tell how many rescales there were and how long they took."""
    return flink_rescales.summary(_seen(job, session).rescales)


@router.get("/details/{rescale_id}", operation_id="get_rescale", summary="A rescale")
def get_details(job: ReadableJob, session: SessionDep, rescale_id: RescaleId) -> rescale_schemas.RescaleDetails:
    """Tell all of a rescale, with the states that the scheduler passed."""
    seen = _seen(job, session)
    found = flink_rescales.find(job.name, seen.rescales, rescale_id.lower())
    if found is None:
        raise not_found(f"Job {job.name!r} remembers no rescale {rescale_id!r}.")
    return flink_rescales.details(job.name, found, seen.groups)


def _seen(job: Job, session: Session) -> Mirrored:
    return mirrored(job, session, KEYS)
