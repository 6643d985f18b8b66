"""Control requests in the asset state store of the Task SDK, for tasks and triggers. All calls block.

The metadata database stores the same documents for the REST API and the command line (`plugin.data.metadata_database`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_adaptive.ports import ControlRequests, DesiredState, Requester
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.runtime.once_logger import OnceLogger
from airflow_adaptive.runtime.requirements.control_requests import (
    DESIRED_STATE,
    KEYS,
    REQUIREMENTS,
    ControlRequest,
    decode,
    decode_desired_state,
    decode_requester,
    validate,
    withdrawn,
)
from airflow_adaptive.stores.change_marker import notify
from airflow_adaptive.stores.job_asset import JobStateStore, job_asset

log = logging.getLogger(__name__)

READS_BETWEEN: Final = 4
"""Number of reads that skip the calendar, which changes rarely."""


class ControlRequestReader:
    """Reads the control requests of one job again and again. An invalid request leaves the last valid request unchanged.

    A read may run in any thread, and may end late or never. Only `accept` changes the known requests.
    """

    def __init__(self, store: JobStateStore) -> None:
        """Create the reader; read nothing yet.

        Args:
            store: state store of the job.
        """
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

        Airflow deletes an asset that no active DAG references, and its state store with it. The known requests are then stored again.
        """
        documents: dict[str, Any] = {key: self._store.get(key) for key in keys}
        is_emptied = any(document is None and key in self._documents for key, document in documents.items())
        return (documents | self._restore() if is_emptied else documents), is_emptied

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

    def _restore(self) -> dict[str, Any]:
        """Store the known requests again, except for keys with a newer request; return the documents of these keys.

        A request that is accepted between the read and the write of its key (12-30 ms) is lost: the Task SDK has no conditional write.
        """
        return {key: self._restored(key, known) for key, known in self._documents.items()}

    def _restored(self, key: str, known: Any) -> Any:
        document = self._store.get(key)
        if document is not None:
            return document
        self._store.set(key, known)
        return known


def store_request(job: str, request: ControlRequest) -> None:
    """Store a control request with its requester in one write, and notify the loop of the job with this name."""
    job_asset(job).store.set(request.key, request.document(SystemClock().now()))
    notify(job)


def request_desired_state(job: str, desired_state: DesiredState) -> None:
    """Request a desired state on behalf of the task of the job, without a requester, and notify the loop of the job."""
    store_request(job, ControlRequest(key=DESIRED_STATE, value=desired_state.value))


def requested_desired_state(job: str) -> DesiredState | None:
    """Return the desired state that was requested last, None without a valid request."""
    return decode_desired_state(job_asset(job).store.get(DESIRED_STATE))


def withdraw_desired_state(job: str) -> bool:
    """Replace the request for a desired state by a document that contains only the requester.

    The document is not deleted, because a missing document means that Airflow emptied the store.

    Returns:
        Whether a user has resumed the job. The request that the task itself makes at its start resumes nothing: after the restoration of
        a backup, it stands in place of the request that suspended the job.
    """
    store = job_asset(job).store
    document = store.get(DESIRED_STATE)
    store.set(DESIRED_STATE, withdrawn(document))
    return decode_desired_state(document) is DesiredState.RUNNING and decode_requester(document) != Requester()
