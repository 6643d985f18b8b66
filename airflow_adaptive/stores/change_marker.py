"""Whose inbox has something new: one Airflow Variable for all jobs, so that many loops need not all look all the time.

Whoever asks something of a job notes a fresh mark under the job's name in the Variable `airflow_adaptive_asked`. A process
reads the Variable once for all its loops. It is a hint and nothing else: two who write it at the same moment may lose one of the two marks,
and Airflow's own REST API writes none; such a wish is found when the job's turn to look comes.
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

VARIABLE = "airflow_adaptive_asked"

DESCRIPTION = "Jobs of airflow-adaptive that were asked something, the newest last: their loops look at once."

MOST_MARKS = 200
"""Older ones go; every loop has seen them by then."""

Call = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs blocking work where it blocks nobody."""


class Signal:
    """The Variable, as the loops of one process read it."""

    def __init__(self, call: Call, clock: Clock, every: timedelta) -> None:
        """Nothing is read yet.

        Args:
            call: for the reading.
            clock: the time.
            every: how often it is read at most.
        """
        self._call = call
        self._clock = clock
        self._every = every
        self._reading = asyncio.Lock()
        self._read_at: datetime | None = None
        self._marks: Mapping[str, str] = {}

    async def mark(self, job: str) -> str | None:
        """The newest mark of a job, None if it has none."""
        async with self._reading:
            now = self._clock.now()
            if self._read_at is None or now - self._read_at >= self._every:
                self._read_at = now
                self._marks = await self._call(read_marks)
        return self._marks.get(job)


def note(job: str) -> None:
    """Mark a job as asked; blocks. It is only a hint, so it does not matter much if it fails."""
    try:
        Variable.set(VARIABLE, with_mark(read_marks(), job), description=DESCRIPTION)
    except Exception as error:  # noqa: BLE001  backends of Variables raise what they like
        log.warning(
            "Variable %r can't be written: where many jobs run, %r sees its wish late: %s", VARIABLE, job, error
        )


def read_marks() -> Mapping[str, str]:
    """Job -> its newest mark; none if they can't be read. Blocks."""
    try:
        return marks_in(Variable.get(VARIABLE, default="{}"))
    except Exception as error:  # noqa: BLE001  backends of Variables raise what they like
        log.warning("Variable %r can't be read: %s", VARIABLE, error)
        return {}


def marks_in(text: str) -> Mapping[str, str]:
    """Job -> its newest mark, of the Variable's text. Raises `ValueError` if that is no JSON."""
    marks = json.loads(text)
    return marks if isinstance(marks, dict) else {}


def with_mark(marks: Mapping[str, str], job: str) -> str:
    """The Variable's text when a job has been asked something as well."""
    marked = {name: mark for name, mark in marks.items() if name != job} | {job: uuid4().hex[:8]}
    return json.dumps(dict(list(marked.items())[-MOST_MARKS:]))
