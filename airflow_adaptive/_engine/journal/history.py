"""The past of a job: its transitions, its decisions, and the rescales that have ended.

The journal is the only source. The journal is compacted, so each rescale also has a document of its own. If a loop is killed, or
the directory cannot be written, after a step is in the journal and before its rescale has a document, the next cycle or the next
loop writes that document.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.ports import JobDirectory, JobDirectoryError
from airflow_adaptive._core.protocol.documents import JournalDocument, RescaleDocument
from airflow_adaptive._core.requirements.advice import rescale_costs
from airflow_adaptive._core.scheduler.errors import SnapshotError
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.scheduler.timeline import Decision, ReasonCode, Rescale, Transition
from airflow_adaptive._core.view import JobHistory
from airflow_adaptive._engine.once_logger import OnceLogger

log = logging.getLogger(__name__)

Record = TypeVar("Record")

MAX_TRANSITIONS = 200
"""Newest transitions in memory; the journal contains more."""

MAX_DECISIONS = 20
"""Newest decisions in memory."""


PENDING_TIMEOUT_S = 60.0
"""Time for which the published state waits for a past that is being read, in seconds. A shorter past would replace a longer one."""


END_TIMEOUT_S = 10.0
"""Time for which the end of a job waits for the past, in seconds. Airflow gives the cancellation of a job 30 s."""


FIRST_RETRY_DELAY = timedelta(seconds=1)
MAX_RETRY_DELAY = timedelta(minutes=1)
"""Delay before a past that cannot be read is read again; each further failure doubles the delay."""


class History:
    """The past of a job, as one loop reads and completes it."""

    def __init__(self, directory: JobDirectory, job: str, size: int) -> None:
        self._directory = directory
        self._job = job
        self._size = size
        self._before: int | None = None
        self._reading: asyncio.Task[None] | None = None
        self._deadline = 0.0
        """Time of the event loop until which the first read is worth waiting for."""
        self._retry_at: datetime | None = None
        self._retry_delay = FIRST_RETRY_DELAY
        self._newer: deque[JournalDocument] = deque(maxlen=MAX_TRANSITIONS)
        """Documents that were taken since `open`, until the older documents are read."""
        self._is_journal_read = False
        self._is_read = False
        self.revision = 0
        """Number of changes. Some of them, such as an entry of the timeline, leave the state of the scheduler as it is."""
        self._errors = OnceLogger(log)
        self._costs: tuple[int, Mapping[Tier, timedelta]] = (0, {})
        self._unkept: deque[RescaleDocument] = deque()
        self._transitions: deque[Transition] = deque(maxlen=MAX_TRANSITIONS)
        self._decisions: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self.rescales: deque[Rescale] = deque(maxlen=size)
        """Rescales that have ended, oldest first."""

    @property
    def is_pending(self) -> bool:
        """Whether the first read is in progress and worth waiting for."""
        return asyncio.get_running_loop().time() < self._deadline

    @property
    def rescale_costs(self) -> Mapping[Tier, timedelta]:
        """How long the rescales of each tier took, see `requirements.rescale_costs`."""
        newest = _newest(self.rescales)
        if newest != self._costs[0]:
            self._costs = (newest, rescale_costs(self.rescales))
        return self._costs[1]

    @property
    def is_kept(self) -> bool:
        """Whether each rescale of the journal has a document of its own, so that the journal may be compacted."""
        return self._is_read and not self._unkept

    async def newest_number(self) -> int:
        """Read the number of the newest rescale that has ended, 0 without any or if the rescales cannot be read."""
        kept: Sequence[RescaleDocument] = ()
        with self._reporting():
            kept = await self._directory.rescales(1)
        return kept[-1].number if kept else 0

    async def open(self, before: int | None = None) -> None:
        """Read the documents before a number in the background, because a loop that takes over must not wait for hundreds of documents."""
        self.close()
        for past in (self._transitions, self._decisions, self.rescales, self._unkept, self._newer):
            past.clear()
        self._is_read = self._is_journal_read = False
        self._before = before
        self._retry_at, self._retry_delay = None, FIRST_RETRY_DELAY
        self._deadline = asyncio.get_running_loop().time() + PENDING_TIMEOUT_S
        self._reading = asyncio.create_task(self._read())
        await asyncio.sleep(0)

    async def wait(self) -> None:
        """Wait until the past is read, or until the read has failed or takes too long. Afterwards, nothing waits for the past."""
        if self._reading is not None and self.is_pending:
            await asyncio.wait({self._reading}, timeout=END_TIMEOUT_S)
            self._deadline = 0.0

    def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
        self._deadline = 0.0

    def take(self, document: JournalDocument) -> None:
        """Add the records of a new journal document."""
        if not self._is_journal_read:
            self._newer.append(document)
        self._add(document)
        if document.decisions:
            self.revision += 1

    def report_outage(self, report: str, state: SchedulerState, now: datetime) -> None:
        """Add a decision that no document contains, because the job directory cannot be used."""
        code = ReasonCode.JOB_DIRECTORY_UNAVAILABLE
        self._decisions.append(Decision(at=now, state=state.name, reason_code=code, reason=report))
        self.revision += 1

    def _add(self, document: JournalDocument) -> None:
        self._transitions.extend(_trusted(Transition, document.transitions))
        self._decisions.extend(_trusted(Decision, document.decisions))
        rescales = list(_trusted(Rescale, document.rescales))
        self.rescales.extend(rescales)
        self._unkept.extend(map(self._document, rescales))

    def read_again(self, now: datetime) -> None:
        """Read the past again if it could not be read, with backoff: each attempt reads hundreds of documents."""
        if self._is_read or self._reading is None or not self._reading.done():
            return
        self._reading.result()
        if self._retry_at is None:
            self._retry_at = now + self._retry_delay
            self._retry_delay = min(2 * self._retry_delay, MAX_RETRY_DELAY)
        elif now >= self._retry_at:
            self._retry_at = None
            self._reading = asyncio.create_task(self._read())

    async def keep(self) -> None:
        """Give each rescale a document of its own; a failure is repeated with the next call."""
        if not self._is_read or not self._unkept:
            return
        with self._reporting():
            while self._unkept:
                await self._keep(self._unkept[0])
                self._unkept.popleft()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report a job directory that cannot be used, once."""
        try:
            yield
            self._errors.report(None)
        except JobDirectoryError as error:
            self._errors.report(f"The rescales of job {self._job!r} cannot be kept now; the loop tries again: {error}")

    def at(self, state: SchedulerState) -> JobHistory:
        """Return the past of a job in this state."""
        current = state.timeline.rescale
        return JobHistory(
            transitions=tuple(self._transitions),
            decisions=tuple(self._decisions),
            rescales=(*self.rescales, *(() if current is None else (current,))),
            ended_rescales=state.timeline.number if current is None else current.number - 1,
        )

    async def _read(self) -> None:
        with self._reporting():
            if not self._is_journal_read:
                self._merge_journal(await self._directory.history(MAX_TRANSITIONS, self._before))
            self._merge_rescales(await self._directory.rescales(self._size))
        self._deadline = 0.0

    def _merge_journal(self, older: Sequence[JournalDocument]) -> None:
        """Put the records of older documents before the records that were taken since `open`."""
        for past in (self._transitions, self._decisions, self.rescales, self._unkept):
            past.clear()
        for document in (*older, *self._newer):
            self._add(document)
        self._newer.clear()
        self._is_journal_read = True

    def _merge_rescales(self, kept: Sequence[RescaleDocument]) -> None:
        """Put the kept rescales before the rescales that only the journal contains."""
        newest = kept[-1].number if kept else 0
        journaled = [rescale for rescale in self.rescales if rescale.number > newest]
        self.rescales.clear()
        self.rescales.extend(_trusted(Rescale, (document.rescale for document in kept)))
        self.rescales.extend(journaled)
        self._unkept = deque(map(self._document, journaled))
        self._is_read = True
        self.revision += 1

    async def _keep(self, document: RescaleDocument) -> None:
        if not await self._directory.record(document):
            log.warning("Job %s has kept another rescale as number %s", self._job, document.number)

    def _document(self, rescale: Rescale) -> RescaleDocument:
        return RescaleDocument(job=self._job, number=rescale.number, rescale=encode(rescale))


def _newest(rescales: Iterable[Rescale]) -> int:
    return max((rescale.number for rescale in rescales), default=0)


def _trusted(kind: type[Record], records: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Yield the records that can be read. The scheduler does not depend on the past, so others are skipped."""
    for record in records:
        try:
            yield decode(kind, record)
        except SnapshotError as error:
            log.warning("A %s of the past cannot be read: %s", kind.__name__.lower(), error)
