"""Control requests in the asset state store of the Task SDK, for tasks and triggers. All calls block.

The metadata database stores the same documents for the REST API and the command line (`plugin.data.metadata_database`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import ControlRequests, DesiredState
from airflow_adaptive.runtime.once_logger import OnceLogger
from airflow_adaptive.runtime.requirements.control_requests import (
    CALENDAR,
    DESIRED_STATE,
    REQUESTERS,
    REQUIREMENTS,
    ControlRequest,
    decode_bounds,
    decode_desired_state,
    decode_requester,
    encode,
)
from airflow_adaptive.stores.change_marker import notify

log = logging.getLogger(__name__)

BOUNDS_FIELDS: Final = {REQUIREMENTS: ("requirements", "requester"), CALENDAR: ("calendar", "calendar_requester")}
"""Keys of requests for bounds -> fields of `ControlRequests` with the bounds and their requester."""

READS_BETWEEN: Final = 4
"""Number of reads that skip the calendar and the requesters, unless the override of the user has changed."""


class ControlRequestReader:
    """Reads the control requests of one job again and again. An invalid request leaves the last valid request unchanged."""

    def __init__(self, store: AssetStateStoreAccessor) -> None:
        """Nothing is read yet.

        Args:
            store: state store of the asset that represents the job.
        """
        self._store = store
        self._requesters: Mapping[str, Any] = {}
        self._override: Any = {}
        self._reads_left = 0
        self._has_desired_state = False
        self._warnings = OnceLogger(log)
        self.requests = ControlRequests(is_read=False)
        """Control requests as they were last read."""

    def read_all_next(self) -> None:
        """Read all keys with the next read."""
        self._reads_left = 0

    def read(self) -> bool:
        """Read the requests; return whether the state store was empty and the requests were stored again.

        Airflow deletes an asset that no active DAG references, and its state store with it.
        """
        desired_state: Any = self._store.get(DESIRED_STATE)
        is_emptied = desired_state is None and self._has_desired_state
        if is_emptied:
            desired_state = self._restore()
        self._has_desired_state = desired_state is not None
        # Each key is decoded separately, so an invalid override does not hide a request to cancel.
        self._update(DESIRED_STATE, lambda: {"desired_state": DesiredState(desired_state or DesiredState.RUNNING)})
        self._reads_left -= 1
        if self._reads_left < 0 or self._store.get(REQUIREMENTS, {}) != self._override:
            self._read_bounds()
            self._reads_left = READS_BETWEEN
        self.requests = replace(self.requests, is_read=True)
        return is_emptied

    def _read_bounds(self) -> None:
        """Read the requesters first: writers store them last, so new bounds never get the expiry of their predecessors."""
        requesters = self._store.get(REQUESTERS, {})
        self._requesters = requesters if isinstance(requesters, Mapping) else {}
        for key in BOUNDS_FIELDS:
            value = self._store.get(key, {})
            self._override = value if key == REQUIREMENTS else self._override
            self._update(key, partial(self._decoded_bounds, key, value))

    def _decoded_bounds(self, key: str, value: Any) -> Mapping[str, Any]:
        bounds, requester = BOUNDS_FIELDS[key]
        return {bounds: decode_bounds(value), requester: decode_requester(self._requesters, key)}

    def _update(self, key: str, decoded: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self.requests = replace(self.requests, **decoded())
        except ValueError as error:
            self._warnings.report(f"Key {key!r} of {self._store} is ignored: {error}")

    def _restore(self) -> str:
        for key, value in {REQUESTERS: dict(self._requesters), **encode(self.requests)}.items():
            if value:
                self._store.set(key, value)
        return self.requests.desired_state.value


def store_request(job: str, request: ControlRequest) -> None:
    """Store a control request with its requester, and notify the loop of the job."""
    store = AssetStateStoreAccessor(name=job)
    _store(store, request.documents(store.get(REQUESTERS, {}), datetime.now(UTC)))
    notify(job)


def request_desired_state(job: str, desired_state: DesiredState) -> None:
    """Request a desired state on behalf of the task of the job, without a requester, and notify the loop of the job."""
    _store(AssetStateStoreAccessor(name=job), {DESIRED_STATE: desired_state.value})
    notify(job)


def requested_desired_state(job: str) -> DesiredState | None:
    """Return the desired state that was requested last, None without a valid request."""
    return decode_desired_state(AssetStateStoreAccessor(name=job).get(DESIRED_STATE))


def withdraw_desired_state(job: str) -> None:
    """Delete the request for a desired state."""
    AssetStateStoreAccessor(name=job).delete(DESIRED_STATE)


def _store(store: AssetStateStoreAccessor, documents: Mapping[str, Any]) -> None:
    for key, value in documents.items():
        store.set(key, value)
