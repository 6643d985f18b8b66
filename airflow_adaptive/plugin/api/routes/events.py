"""Server-sent events: a job's page stays live without asking again and again.

Events: `job` (`JobDetails`) at the beginning and whenever anything of the job has changed; `metrics` (`Metrics`, the finest
resolution) with the points that are new; `gone` at the end of a job that was removed. A comment every 15 s is a sign of life. The
server closes after ten minutes; a browser connects again by itself, and is asked for login and permission again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from airflow_adaptive.plugin.api import job_details
from airflow_adaptive.plugin.api.feed import CrowdedError, Feed, Look
from airflow_adaptive.plugin.api.problems import ProblemError
from airflow_adaptive.plugin.api.schemas import JobDetails, Metrics, Step
from airflow_adaptive.plugin.api.security import ReadableJob, SessionDep, UserDep, allowed
from airflow_adaptive.plugin.data import metadata_database
from airflow_adaptive.plugin.data.metadata_database import Job
from airflow_adaptive.plugin.data.published_state import Mirrored

router = APIRouter(tags=["Jobs"])

FEED: Final = Feed()
"""Of this process."""

RECONNECT_MS: Final = 3000

FIRST_POINTS: Final = 12
"""Points at the beginning: the page has the rest already, and what came in between."""

RETRY_AFTER_S: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What listeners are told of a job."""

    job: JobDetails
    figures: Metrics


@router.get(
    "/jobs/{job}/events",
    operation_id="watch_job",
    summary="Watch a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `job`, `metrics`, `gone`.",
            "content": {
                "text/event-stream": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            "event": {"enum": ["job", "metrics", "gone"]},
                            "data": {
                                "type": "string",
                                "description": "JobDetails, Metrics, or the job's name, as JSON.",
                            },
                        },
                    },
                    "example": 'event: job\ndata: {"job": "departures", "state": "Executing"}\n\n',
                }
            },
        }
    },
)
def watch_job(user: UserDep, job: ReadableJob, session: SessionDep) -> StreamingResponse:
    """Tell the job's details and new figures whenever they change (server-sent events)."""
    try:
        FEED.refuse_crowd()
    except CrowdedError as error:
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        detail = "Too many watch jobs here already: try again later."
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, "crowded", detail, headers=headers) from error
    editable = bool(allowed(user, [job], "PUT", session))
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(job, editable), media_type="text/event-stream", headers=headers)


async def _events(job: Job, editable: bool) -> AsyncIterator[str]:
    """The stream of one listener."""
    yield f"retry: {RECONNECT_MS}\n\n"
    told: list[Any] | None = None
    async for look in FEED.listen(job.asset_id, lambda before: look_at(job, before)):
        if look is None:
            yield ": alive\n\n"
        elif look.shown is None:
            yield _event("gone", {"job": job.name})
        else:
            yield _event("job", look.shown.job.model_copy(update={"editable": editable}).model_dump(mode="json"))
            news, told = _news(look.shown.figures, told)
            if news.points:
                yield _event("metrics", news.model_dump(mode="json"))


def look_at(job: Job, before: Hashable) -> Look | None:
    """A look at the job's mirror, None if it is as it was before; blocks."""
    with metadata_database.reading() as session:
        found = metadata_database.find_job(job.name, session)
        if found is None or found.asset_id != job.asset_id:
            return Look(revision=None, shown=None)
        written = metadata_database.revisions([job.asset_id], session)[job.asset_id]
        revision = (tuple(sorted(written.items())), found.dag_ids)
        if revision == before:
            return None
        documents = metadata_database.documents([job.asset_id], None, session)[job.asset_id]
        seen = Mirrored(documents=documents, revisions=written)
        shown = Shown(job=job_details.details(found, seen), figures=seen.figures(Step.TEN_SECONDS))
        return Look(revision=revision, shown=shown)


def _news(figures: Metrics, told: list[Any] | None) -> tuple[Metrics, list[Any] | None]:
    """The points that a listener has not been told, and the newest one: the one told last may have grown since."""
    if "at" not in figures.columns or not figures.points or figures.points[-1] == told:
        return figures.model_copy(update={"points": []}), told
    at = figures.columns.index("at")
    points = figures.points[-FIRST_POINTS:] if told is None else figures.points
    news = [point for point in points if told is None or point[at] >= told[at]]
    return figures.model_copy(update={"points": news}), figures.points[-1]


def _event(name: str, data: Any) -> str:
    """One event; JSON has no line breaks that would end it early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
