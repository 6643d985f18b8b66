"""Server-sent events about a job, which replace polling by the page.

Events: `job` (`JobDetails`) at the beginning and after each change of the job; `metrics` (`Metrics` of the finest resolution) with the
new points; `gone` after the removal of the job. The server sends a comment every 15 s as a heartbeat, and closes the stream after ten
minutes. A browser reconnects automatically, and the server then checks login and permissions again.

A server notifies its apps of the shutdown only after all responses have ended, and Airflow's API server waits two minutes for them.
Therefore this module also handles the signal, and then calls the previous handler of the signal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from types import FrameType
from typing import Any, Final, NamedTuple

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic_core import to_jsonable_python
from starlette.types import Send

from airflow_adaptive._core.view import TaskKey
from airflow_adaptive._web.api import job_details
from airflow_adaptive._web.api.routes.common import visible
from airflow_adaptive._web.api.schemas import JobDetails, MetricsStep
from airflow_adaptive._web.api.security import Access, ReadableAccess, SessionDep, UserDep, is_editable
from airflow_adaptive._web.data.errors import RequestRefusedError
from airflow_adaptive._web.data.metadata_database import state_store
from airflow_adaptive._web.data.metadata_database.jobs import Job, find_job, reading, task_states
from airflow_adaptive._web.data.published_state import END_KEYS, Metrics, PublishedState, is_old, published_at

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 1.0
HEARTBEAT_INTERVAL_S: Final = 15.0
"""Proxies close connections without traffic."""

MAX_SUBSCRIBERS: Final = 200
"""Maximum number of subscribers in this process. Each subscriber keeps a connection open."""

MAX_SUBSCRIBERS_PER_USER: Final = 20
"""Maximum number of subscribers of one user in this process, so that one user cannot exclude the others."""

LIFETIME_S: Final = 600.0
"""Maximum duration of a subscription. A new connection checks the login and the permissions again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One observation of a watched job.

    Attributes:
        revision: differs between different observations.
        content: value for the subscribers; None if the job does not exist anymore.
    """

    revision: Hashable
    content: Any


Poll = Callable[[Hashable], Update | None]
"""Blocking function that polls a job. Gets the last revision, and returns None if the revision is unchanged."""


class TooManySubscribersError(RuntimeError):
    """The feed has reached its maximum number of subscribers.

    Attributes:
        is_of_user: whether the user has reached the maximum of each user.
    """

    def __init__(self, message: str, *, is_of_user: bool) -> None:
        super().__init__(message)
        self.is_of_user = is_of_user


@dataclass(eq=False, slots=True)
class _Topic:
    """A watched job. The event `changed` is set, and replaced, when there is a newer update."""

    poll: Poll
    subscribers: int = 0
    update: Update | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    last_error: str | None = None


@dataclass(eq=False, kw_only=True)
class Feed:
    """The watched jobs of this process."""

    poll_interval_s: float = POLL_INTERVAL_S
    heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S
    lifetime_s: float = LIFETIME_S
    max_subscribers: int = MAX_SUBSCRIBERS
    max_subscribers_per_user: int = MAX_SUBSCRIBERS_PER_USER
    _topics: dict[Hashable, _Topic] = field(default_factory=dict, init=False)
    _of_users: Counter[str] = field(default_factory=Counter, init=False)
    _is_closed_with_the_server: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def subscribers(self) -> int:
        """Current number of subscribers."""
        return self._of_users.total()

    def check_capacity(self, user: str) -> None:
        """Raise `TooManySubscribersError` if the feed accepts no more subscribers, or no more subscribers of this user."""
        if self._of_users[user] >= self.max_subscribers_per_user:
            raise TooManySubscribersError(f"the user has {self._of_users[user]} subscribers already", is_of_user=True)
        if self._of_users.total() >= self.max_subscribers:
            raise TooManySubscribersError(f"the feed has {self.max_subscribers} subscribers already", is_of_user=False)

    def close(self) -> None:
        """End all subscriptions, because the server stops."""
        self._is_closed = True
        for topic in self._topics.values():
            topic.changed.set()

    async def subscribe(self, key: Hashable, poll: Poll, user: str) -> AsyncGenerator[Update | None]:
        """Yield the last update and each new update, until the job is gone, the lifetime ends or the server stops.

        Subscribers of the same job share the function of the first subscriber.

        None is a heartbeat.

        Raises:
            TooManySubscribersError: the feed accepts no more subscribers.
        """
        self.check_capacity(user)
        topic, loop = self._join(key, poll), asyncio.get_running_loop()
        self._of_users[user] += 1
        place = ExitStack()
        place.callback(self._leave, key, topic, user)
        # A client that reads nothing never asks for the next update, so a timer ends its subscription.
        end, sent = loop.call_later(self.lifetime_s, place.close), None
        try:
            while not self._is_closed and (left := end.when() - loop.time()) > 0:
                if topic.update is not None and topic.update is not sent:
                    sent = topic.update
                    yield sent
                    if sent.content is None:
                        return
                elif not await _set_within(topic.changed, min(left, self.heartbeat_interval_s)):
                    yield None
        finally:
            end.cancel()
            place.close()

    def _join(self, key: Hashable, poll: Poll) -> _Topic:
        if not self._is_closed_with_the_server:
            self._is_closed_with_the_server = True
            call_when_stopped(self.close)
        topic = self._topics.setdefault(key, _Topic(poll=poll))
        topic.subscribers += 1
        if topic.task is None:
            topic.task = asyncio.create_task(self._watch(topic))
        return topic

    def _leave(self, key: Hashable, topic: _Topic, user: str) -> None:
        self._of_users[user] -= 1
        self._of_users += Counter()  # forget users without subscribers
        topic.subscribers -= 1
        if not topic.subscribers:
            self._topics.pop(key, None)
            if topic.task is not None:
                topic.task.cancel()

    async def _watch(self, topic: _Topic) -> None:
        while True:
            update = await self._poll(topic)
            if update is not None:
                topic.update, changed, topic.changed = update, topic.changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(self.poll_interval_s)

    async def _poll(self, topic: _Topic) -> Update | None:
        """Poll a job. Return None if nothing has changed, or if the poll fails."""
        revision = None if topic.update is None else topic.update.revision
        try:
            update = await asyncio.to_thread(topic.poll, revision)
        except Exception as error:  # noqa: BLE001  a database raises many kinds of errors, and later polls may succeed
            if topic.last_error != str(error):
                log.warning("A watched job cannot be read: %s", error)
                topic.last_error = str(error)
            return None
        topic.last_error = None
        return update


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def call_when_stopped(callback: Callable[[], object]) -> None:
    """Call a function in the running event loop when this process receives a signal to stop.

    Does nothing outside the main thread, where Python cannot handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        signal.signal(number, _after(signal.getsignal(number), loop, callback))


def _after(previous: Any, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> Any:
    """Return a handler that calls the function, and then the previous handler."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)
        if callable(previous):
            previous(number, frame)
        elif previous is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handle


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
