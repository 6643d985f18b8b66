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
from datetime import timedelta
from typing import Any
from uuid import uuid4

from airflow.sdk import Variable

from airflow_adaptive._airflow.internals import conf
from airflow_adaptive._core.ports import Clock, PortError

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
