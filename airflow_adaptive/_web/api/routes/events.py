"""Server-sent events about a job, which replace polling by the page.

Events: `job` (`JobDetails`) at the beginning and after each change of the job; `metrics` (`Metrics` of the finest resolution) with the
new points; `gone` after the removal of the job. The server sends a comment every 15 s as a heartbeat, and closes the stream after ten
minutes. A browser reconnects automatically, and the server then checks login and permissions again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic_core import to_jsonable_python
from starlette.types import Send

from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._web.api import job_details
from airflow_adaptive._web.api.feed import Feed, TooManySubscribersError, Update
from airflow_adaptive._web.api.routes.common import visible
from airflow_adaptive._web.api.schemas import JobDetails, MetricsStep
from airflow_adaptive._web.api.security import Access, ReadableAccess, SessionDep, UserDep, is_editable
from airflow_adaptive._web.data.errors import RequestRefusedError
from airflow_adaptive._web.data.metadata_database import state_store
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_job, reading, task_states
from airflow_adaptive._web.data.published_state import END_KEYS, Metrics, PublishedState, is_old, published_at

router = APIRouter(tags=["Jobs"])

FEED: Final = Feed()
"""The feed of this process."""

RECONNECT_MS: Final = 3000

FIRST_POINTS: Final = 12
"""Number of points in the first event. The page has already loaded the older points."""

RETRY_AFTER_S: Final = 30


class EventStream(StreamingResponse):
    """A stream that ends with the subscription, also while its client reads nothing, so that the server closes the connection."""

    async def stream_response(self, send: Send) -> None:
        """Send the events."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FEED.lifetime_s + FEED.heartbeat_interval_s):
                await super().stream_response(send)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """Details and metrics of a job for the subscribers."""

    job: JobDetails
    metrics: Metrics


class Revision(NamedTuple):
    """What a subscriber knows about a job. A change of it is sent.

    Attributes:
        stored: keys of the stored documents, with the times of their last writes.
        task: task instance of a job that has not published its end, None for another job.
        task_state: state of this task instance.
        is_stale: whether the published state is stale.
    """

    stored: tuple[tuple[str, datetime], ...]
    task: TaskKey | None
    task_state: str | None
    is_stale: bool


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
                                "description": "JobDetails, Metrics, or the name of the job, as JSON.",
                            },
                        },
                    },
                    "example": 'event: job\ndata: {"job": "departures", "state": "Executing"}\n\n',
                }
            },
        }
    },
)
def watch_job(user: UserDep, access: ReadableAccess, session: SessionDep) -> StreamingResponse:
    """Stream the details and the new metrics of the job after each change (server-sent events)."""
    try:
        FEED.check_capacity(user.get_id())
    except TooManySubscribersError as error:
        raise _too_many(error) from error
    editable = is_editable(user, access.job, session)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return EventStream(_events(access, editable, user.get_id()), media_type="text/event-stream", headers=headers)


def _too_many(error: TooManySubscribersError) -> RequestRefusedError:
    if error.is_of_user:
        status, kind = HTTPStatus.TOO_MANY_REQUESTS, "too-many-subscriptions"
        detail = "You watch too many jobs on this server. Close other pages, and try again later."
    else:
        status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "too-many-subscribers"
        detail = "Too many clients watch jobs on this server. Try again later."
    return RequestRefusedError(status, kind, detail, retry_after_s=RETRY_AFTER_S)


async def _events(access: Access, editable: bool, user: str) -> AsyncIterator[str]:
    """The stream of one subscriber. The stream ends at once if other requests took the last places meanwhile."""
    job = access.job
    yield f"retry: {RECONNECT_MS}\n\n"
    last_sent: list[Any] | None = None
    with suppress(TooManySubscribersError):
        async for update in FEED.subscribe(job.store, lambda revision: poll(job, revision), user):
            if update is None:
                yield ": alive\n\n"
            elif update.content is None:
                yield _event("gone", {"job": job.name})
            else:
                yield _event(
                    "job", to_jsonable_python(_details(update.content.job, access, editable), timedelta_mode="float")
                )
                page, last_sent = _new_points(update.content.metrics, last_sent)
                if page.points:
                    yield _event("metrics", page.model_dump(mode="json"))


def _details(found: JobDetails, access: Access, editable: bool) -> JobDetails:
    """The details that the subscriber may see."""
    own: dict[str, Any] = {
        "editable": editable,
        "dag_ids": [dag_id for dag_id in found.dag_ids if dag_id in access.job.dag_ids],
    }
    return visible(replace(found, **own), access.rights)


def poll(job: Job, last_revision: Hashable) -> Update | None:
    """Read the published state of a job. Return None if the revision is unchanged. Blocks.

    An unchanged job costs one query, and another one for the state of its task while it has not ended. The removal of the Asset also removes
    the documents. Then the job is searched again, because its task may have left its driver (`deleted_tasks`).
    """
    with reading() as session:
        written = state_store.revisions(job.store, session)
        if not written and (other := find_job(job.name, session)) is not None:
            job, written = other, state_store.revisions(other.store, session)
        stored = tuple(sorted(written.items()))
        if isinstance(last_revision, Revision) and last_revision.stored == stored:
            task = last_revision.task
        else:
            documents = state_store.documents([job.store], END_KEYS, session)[job.store]
            task = PublishedState(documents=documents, revisions=written).unfinished_task
        task_state = None if task is None else task_states({task}, session).get(task)
        is_stale = task is not None and is_old(published_at(written), datetime.now(UTC))
        revision = Revision(stored, task, task_state, is_stale)
        if revision == last_revision:
            return None
        found = find_job(job.name, session)
        if found is None or found.store != job.store:
            return Update(revision=None, content=None)
        documents = state_store.documents([job.store], job_details.KEYS, session)[job.store]
        published = PublishedState(documents=documents, revisions=written, task_state=task_state)
        content = JobUpdate(
            job=job_details.details(found, published), metrics=published.metrics(MetricsStep.TEN_SECONDS)
        )
        return Update(revision=revision, content=content)


def _new_points(metrics: Metrics, last_sent: list[Any] | None) -> tuple[Metrics, list[Any] | None]:
    """The points that a subscriber does not have, and the newest point. The last sent point may have changed since then."""
    if "at" not in metrics.columns or not metrics.points or metrics.points[-1] == last_sent:
        return metrics.model_copy(update={"points": []}), last_sent
    at = metrics.columns.index("at")
    points = metrics.points[-FIRST_POINTS:] if last_sent is None else metrics.points
    new = [point for point in points if last_sent is None or point[at] >= last_sent[at]]
    return metrics.model_copy(update={"points": new}), metrics.points[-1]


def _event(name: str, data: Any) -> str:
    """One event. JSON contains no line breaks, which would end the event early."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
