"""Control requests in the asset state store of the Task SDK, for tasks and triggers, and the change markers that announce them.

The metadata database stores the same documents for the REST API and the command line (`_web.data.metadata_database`).

Change markers name the jobs that have new control requests, so that many loops need not poll their stores often. One Airflow Variable holds the
markers of all jobs. Every writer of a control request puts a new random marker under the name of the
job. Each process reads the Variable once for all of its loops. A marker is only a hint: two simultaneous writers may lose one of
the two markers, and Airflow's own REST API writes no markers. A loop finds such a request with its next regular poll.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from airflow.sdk import Variable

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._airflow.store.job_asset import JobStateStore, job_asset
from airflow_adaptive._airflow.store.storable import storable
from airflow_adaptive._core.ports import Clock, PortError
from airflow_adaptive._core.requirements.control_requests import (
    CANCELLATION_OF_TASKS,
    DESIRED_STATE,
    DESIRED_STATE_KEYS,
    DESIRED_STATE_OF_TASKS,
    HANDLED,
    KEYS,
    REQUIREMENTS,
    RESTORED,
    STATES,
    ControlRequest,
    ControlRequests,
    DesiredState,
    Requester,
    decode,
    encode_handled,
    open_requests,
    validate,
    with_restored,
    without_open,
)
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.once_logger import OnceLogger

log = logging.getLogger(__name__)

VARIABLE = "airflow_adaptive_change_markers"

DESCRIPTION = "Jobs of airflow-adaptive with new control requests, newest last: their loops poll at once."

MAX_MARKERS = 200
"""Number of markers that the Variable keeps; every loop has seen older markers."""

Call = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs blocking work in a thread."""


class ChangeMarkers:
    """The change markers, as the loops of one process read them."""

    def __init__(self, call: Call, clock: Clock, interval: timedelta) -> None:
        self._call = call
        self._clock = clock
        self._interval = interval
        self._refreshed_s: float | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._markers: Mapping[str, str] = {}

    def marker(self, job: str) -> str | None:
        """Return the newest known marker of a job, None if the job has no marker. A read that is due runs in the background."""
        is_due = self._refreshed_s is None or self._clock.elapsed - self._refreshed_s >= self._interval.total_seconds()
        if is_due and (self._refreshing is None or self._refreshing.done()):
            self._refreshed_s = self._clock.elapsed
            self._refreshing = asyncio.create_task(self._refresh())
        return self._markers.get(job)

    async def _refresh(self) -> None:
        try:
            self._markers = await self._call(read_markers)
        except PortError as error:
            log.warning("Variable %r cannot be read: %s", VARIABLE, error)


def notify(job: str) -> None:
    """Write a new marker for a job; blocks. A failure only delays the loop.

    The Variable belongs to no team, so that the loops and the API server of every team can read it. A task of a team would create
    a Variable of its team, so with `[core] multi_team` only the API server creates the Variable.
    """
    text = _text()
    if text is None and conf.getboolean("core", "multi_team", fallback=False):
        return
    try:
        Variable.set(VARIABLE, with_new_marker(text or "{}", job), description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be written. The loop of job %r sees its request late: %s", VARIABLE, job, error)


def read_markers() -> Mapping[str, str]:
    """Return the newest marker of each job, none if the markers cannot be read; blocks."""
    return _decode(_text() or "{}")


def with_new_marker(text: str, job: str) -> str:
    """Return the text of the Variable with a new marker for a job. Invalid text counts as empty."""
    markers = {name: marker for name, marker in _decode(text).items() if name != job} | {job: uuid4().hex[:8]}
    return json.dumps(dict(list(markers.items())[-MAX_MARKERS:]))


def _text() -> str | None:
    try:
        text: str | None = Variable.get(VARIABLE, default=None)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be read: %s", VARIABLE, error)
        return None
    return text


def _decode(text: str) -> Mapping[str, str]:
    try:
        markers = json.loads(text)
    except (RecursionError, ValueError) as error:
        log.warning("Variable %r is not valid JSON: %s", VARIABLE, error)
        return {}
    return markers if isinstance(markers, dict) else {}


READS_BETWEEN: Final = 4
"""Number of reads that skip the requests of tasks, such as those of a calendar, which change rarely."""


class ControlRequestReader:
    """Reads the control requests of one job again and again. An invalid request leaves the last valid request unchanged.

    A read may run in any thread, and may end late or never. Only `accept` changes the known requests.
    """

    def __init__(self, store: JobStateStore) -> None:
        self._store = store
        self._documents: dict[str, Any] = {}
        self._reads_left = 0
        self._warnings = OnceLogger(log)
        self.requests = ControlRequests(is_read=False)
        """Control requests as they were last read."""

    def next_keys(self, *, every: bool) -> tuple[str, ...]:
        """Return the keys that the next read must contain: every key if asked for, or after some reads of the other keys."""
        self._reads_left = READS_BETWEEN if every or self._reads_left <= 0 else self._reads_left - 1
        return KEYS if self._reads_left == READS_BETWEEN else (DESIRED_STATE, REQUIREMENTS)

    def read(self, keys: Iterable[str] = KEYS) -> tuple[dict[str, Any], bool]:
        """Return the documents of some keys, None for a key without a document, and whether the state store was emptied; blocks.

        Airflow deletes an asset that no active DAG references, and its state store with it. The known requests are then stored again, under
        a key that only loops write: a request that is accepted in the meantime takes precedence.
        """
        documents: dict[str, Any] = {key: self._store.get(key) for key in keys}
        missing = [key for key, document in documents.items() if document is None]
        if not missing:
            return documents, False
        found = documents[RESTORED] if RESTORED in documents else self._store.get(RESTORED)
        restored: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        is_emptied = any(key in self._documents and key not in restored for key in missing if key != RESTORED)
        if is_emptied:
            restored = {key: document for key, document in self._documents.items() if key != RESTORED}
            self._store.set(RESTORED, restored)
        return {**documents, **with_restored({**documents, RESTORED: restored})}, is_emptied

    def accept(self, documents: Mapping[str, Any]) -> None:
        """Replace the known requests by those that were read."""
        known = {key: document for key, document in self._documents.items() if key not in documents}
        self._documents = known | self._valid(documents)
        self.requests = decode(self._documents)

    def _valid(self, documents: Mapping[str, Any]) -> dict[str, Any]:
        """Return the documents, with the last valid document in place of an invalid one; without keys that have no document."""
        found: dict[str, Any] = {}
        for key, document in documents.items():
            try:
                if document is not None:
                    validate(key, document)
                found[key] = document
            except ValueError as error:
                self._warnings.report(f"Key {key!r} of {self._store} is ignored: {error}")
                found[key] = self._documents.get(key)
        return {key: document for key, document in found.items() if document is not None}


def store_request(job: str, request: ControlRequest) -> None:
    """Store a control request with its requester in one write, and notify the loop of the job with this name."""
    job_asset(job).store.set(request.key, request.document(SystemClock().now()))
    notify(job)


def request_desired_state(job: str, desired_state: DesiredState, requester: Requester) -> None:
    """Request a desired state on behalf of the task of another DAG. A request of such a task to cancel the job is not replaced."""
    key = CANCELLATION_OF_TASKS if desired_state is DesiredState.CANCELED else DESIRED_STATE_OF_TASKS
    store_request(job, ControlRequest(key=key, value=desired_state.value, requester=requester))


def read_desired_state(job: str) -> Mapping[str, Any]:
    """Return the documents that determine the desired state of a job, by key."""
    store = job_asset(job).store
    return with_restored({key: store.get(key) for key in DESIRED_STATE_KEYS})


def begin_job(job: str, documents: Mapping[str, Any], read_at: datetime, *, is_retry: bool = False) -> None:
    """Record that the task of the job starts the job.

    Args:
        job: name of the job.
        documents: the documents that determine the desired state. The requests in them have no effect any more.
        read_at: time before they were read.
        is_retry: whether the task continues an earlier try, so that open requests apply to it.
    """
    handled = without_open(documents) if is_retry else documents
    job_asset(job).store.set(HANDLED, encode_handled(handled, None, missing=_missing(documents, read_at)))


def _missing(documents: Mapping[str, Any], read_at: datetime) -> dict[str, str]:
    """Return the keys of requests for a desired state that were not found, with the time of the read."""
    return {key: read_at.isoformat() for key in STATES if documents.get(key) is None}


def end_job(job: str, end: Mapping[str, Any], retried: str | None = None) -> bool:
    """Record that the task of the job reports the end of the job, so the requests until now have no effect any more.

    The requests are read again after the record. A request that is accepted before this read is not lost, and the API server refuses later
    requests because of the record.

    Args:
        job: name of the job.
        end: fields of the summary of the job at its end.
        retried: the task instance that Airflow retries, so that open requests apply to its next try; None without a retry.

    Returns:
        Whether a user or the task of another DAG has resumed the job.
    """
    read_at, documents = SystemClock().now(), read_desired_state(job)
    handled = documents if retried is None else without_open(documents)
    missing = _missing(documents, read_at)
    job_asset(job).store.set(HANDLED, encode_handled(handled, storable(end), retried, missing))
    later = open_requests(read_desired_state(job))
    newest = [*open_requests(documents), *later][-1:]
    return any(document["value"] == DesiredState.RUNNING for document in newest)
