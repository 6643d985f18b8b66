"""Change markers: they name the jobs that have new control requests, so that many loops need not poll their stores often.

One Airflow Variable holds the markers of all jobs. Every writer of a control request puts a new random marker under the name of the
job. Each process reads the Variable once for all of its loops. A marker is only a hint: two simultaneous writers may lose one of
the two markers, and Airflow's own REST API writes no markers. A loop finds such a request with its next regular poll.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from airflow.sdk import Variable

from airflow_adaptive.ports import Clock

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
        """Create the reader of the change marker; read nothing yet.

        Args:
            call: runs the blocking read.
            clock: time.
            interval: shortest time between two reads.
        """
        self._call = call
        self._clock = clock
        self._interval = interval
        self._lock = asyncio.Lock()
        self._read_at: datetime | None = None
        self._markers: Mapping[str, str] = {}

    async def marker(self, job: str) -> str | None:
        """Return the newest marker of a job, None if the job has no marker."""
        async with self._lock:
            now = self._clock.now()
            if self._read_at is None or now - self._read_at >= self._interval:
                self._read_at = now
                self._markers = await self._call(read_markers)
        return self._markers.get(job)


def notify(job: str) -> None:
    """Write a new marker for a job; blocks. A failure only delays the loop."""
    try:
        Variable.set(VARIABLE, with_new_marker(_text(), job), description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be written. The loop of job %r sees its request late: %s", VARIABLE, job, error)


def read_markers() -> Mapping[str, str]:
    """Return the newest marker of each job, none if the markers cannot be read; blocks."""
    return _decode(_text())


def with_new_marker(text: str, job: str) -> str:
    """Return the text of the Variable with a new marker for a job. Invalid text counts as empty."""
    markers = {name: marker for name, marker in _decode(text).items() if name != job} | {job: uuid4().hex[:8]}
    return json.dumps(dict(list(markers.items())[-MAX_MARKERS:]))


def _text() -> str:
    try:
        return str(Variable.get(VARIABLE, default="{}"))
    except Exception as error:  # noqa: BLE001  backends of Variables raise exceptions of any class
        log.warning("Variable %r cannot be read: %s", VARIABLE, error)
        return "{}"


def _decode(text: str) -> Mapping[str, str]:
    try:
        markers = json.loads(text)
    except ValueError as error:
        log.warning("Variable %r is not valid JSON: %s", VARIABLE, error)
        return {}
    return markers if isinstance(markers, dict) else {}
