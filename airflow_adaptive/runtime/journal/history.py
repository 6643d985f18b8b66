"""The past of a job: its transitions, its decisions, and the rescales that have ended.

The journal is the only source. The journal is compacted, so each rescale also has a document of its own. If a loop is killed, or
the directory cannot be written, after a step is in the journal and before its rescale has a document, the next cycle or the next
loop writes that document.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Reversible, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_adaptive.job.protocol.documents import JournalDocument, RescaleDocument
from airflow_adaptive.ports import JobChannel, JobDirectoryError
from airflow_adaptive.runtime.once_logger import OnceLogger
from airflow_adaptive.runtime.requirements.rescale_costs import rescale_costs
from airflow_adaptive.scheduler.history.rescale_summary import RescaleSummary, summarize
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.scheduler.timeline import Rescale

log = logging.getLogger(__name__)

MAX_TRANSITIONS = 200
"""Newest transitions in memory; the journal contains more."""

MAX_DECISIONS = 20
MAX_RESCALES = 20
"""Newest decisions and rescales in a view."""

DECISION_BYTES = 6 << 10
RESCALE_BYTES = 16 << 10
"""Size of the published records, as JSON: all XComs of a job must fit into 64 KiB, the limit of some backends."""

ALL_RESCALE_BYTES = 48 << 10
"""Size of the rescales with per-vertex details, which have a document of their own."""

ITEM_BYTES = 4 << 10
"""Larger records are published without per-vertex details; the history document keeps them."""

MAX_TEXT_CHARACTERS = 300
"""Longer reasons are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedHistory:
    """The part of the past that is published: encoded records, oldest first, which fit into the limits of the stores.

    Attributes:
        transitions: newest state transitions.
        decisions: newest decisions.
        rescales: newest rescales, with the one in progress; large ones without per-vertex details.
        rescale_summary: statistics of all rescales.
        all_rescales: rescales with per-vertex details.
    """

    transitions: Sequence[Mapping[str, Any]] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    rescales: Sequence[Mapping[str, Any]] = ()
    rescale_summary: RescaleSummary
    all_rescales: Sequence[Mapping[str, Any]] = ()


class History:
    """The past of a job, as one loop reads and completes it."""

    def __init__(self, channel: JobChannel, job: str, size: int) -> None:
        """Nothing is read before `open`.

        Args:
            channel: the job directory.
            job: id of the job.
            size: number of rescales that are kept.
        """
        self._channel = channel
        self._job = job
        self._size = size
        self._is_read = False
        self._errors = OnceLogger(log)
        self._costs: tuple[int, Mapping[Tier, timedelta]] = (0, {})
        self._unkept: deque[RescaleDocument] = deque()
        self._transitions: deque[dict[str, Any]] = deque(maxlen=MAX_TRANSITIONS)
        self._decisions: deque[dict[str, Any]] = deque(maxlen=MAX_DECISIONS)
        self.rescales: deque[Rescale] = deque(maxlen=size)
        """Rescales that have ended, oldest first."""

    @property
    def newest(self) -> int:
        """Number of the newest rescale that has ended, 0 without any."""
        return max((rescale.number for rescale in self.rescales), default=0)

    @property
    def rescale_costs(self) -> Mapping[Tier, timedelta]:
        """How long the rescales of each tier took, see `requirements.rescale_costs`."""
        if self.newest != self._costs[0]:
            self._costs = (self.newest, rescale_costs(self.rescales))
        return self._costs[1]

    @property
    def is_kept(self) -> bool:
        """Whether each rescale of the journal has a document of its own, so that the journal may be compacted."""
        return self._is_read and not self._unkept

    async def open(self) -> None:
        """Read the past. Raises `JobDirectoryError` if the journal cannot be read."""
        self._is_read = False
        for past in (self._transitions, self._decisions, self.rescales, self._unkept):
            past.clear()
        for document in await self._channel.history(MAX_TRANSITIONS):
            self.take(document)
        await self.keep()

    def take(self, document: JournalDocument) -> None:
        """Add the records of a journal document."""
        self._transitions.extend(document.transitions)
        self._decisions.extend(document.decisions)
        rescales = list(_trusted(document.rescales))
        self.rescales.extend(rescales)
        self._unkept.extend(map(self._document, rescales))

    async def keep(self) -> None:
        """Give each rescale a document of its own; a failure is repeated with the next call."""
        if self.is_kept:
            return
        try:
            if not self._is_read:
                self._merge(await self._channel.rescales(self._size))
            while self._unkept:
                await self._keep(self._unkept[0])
                self._unkept.popleft()
            self._errors.report(None)
        except JobDirectoryError as error:
            self._errors.report(f"The rescales of job {self._job!r} cannot be kept now; the loop tries again: {error}")

    def published(self, state: SchedulerState) -> PublishedHistory:
        """The past with the rescale in progress, for a job view."""
        rescales = list(self.rescales)
        if state.timeline.rescale is not None:
            rescales.append(state.timeline.rescale)
        return PublishedHistory(
            transitions=[_brief(transition, before=None, after=None) for transition in self._transitions],
            decisions=newest_within(self._decisions, DECISION_BYTES, encoded=_brief),
            rescales=newest_within(rescales[-MAX_RESCALES:], RESCALE_BYTES, encoded=_brief_rescale),
            rescale_summary=summarize(rescales),
            all_rescales=newest_within(rescales, ALL_RESCALE_BYTES, encoded=encode),
        )

    def _merge(self, kept: Sequence[RescaleDocument]) -> None:
        """Put the kept rescales before the rescales that only the journal contains."""
        newest = kept[-1].number if kept else 0
        journaled = [rescale for rescale in self.rescales if rescale.number > newest]
        self.rescales.clear()
        self.rescales.extend(_trusted(document.rescale for document in kept))
        self.rescales.extend(journaled)
        self._unkept = deque(map(self._document, journaled))
        self._is_read = True

    async def _keep(self, document: RescaleDocument) -> None:
        if not await self._channel.record(document):
            log.warning("Job %s has kept another rescale as number %s", self._job, document.number)

    def _document(self, rescale: Rescale) -> RescaleDocument:
        return RescaleDocument(job=self._job, number=rescale.number, rescale=encode(rescale))


def _identity(item: Any) -> Any:
    return item


def newest_within(items: Reversible[Any], max_bytes: int, encoded: Callable[[Any], Any] = _identity) -> list[Any]:
    """The newest items whose encoded forms fit into a size.

    The function runs with every publication, and most of a long past does not fit: it encodes at most one item too many.

    Args:
        items: the newest last.
        max_bytes: size of the result, as JSON.
        encoded: gives the JSON-able form of an item.

    Returns:
        the newest last.
    """
    newest: deque[Any] = deque()
    for item in map(encoded, reversed(items)):
        max_bytes -= len(json.dumps(item)) + 2
        if max_bytes < 0:
            break
        newest.appendleft(item)
    return list(newest)


def _brief(record: Mapping[str, Any], **replacements: Any) -> dict[str, Any]:
    """The record with short texts, and with the replacements if the record is too large."""
    short = {key: it[:MAX_TEXT_CHARACTERS] if isinstance(it, str) else it for key, it in record.items()}
    return short if len(json.dumps(short)) <= ITEM_BYTES else short | replacements


def _brief_rescale(rescale: Rescale) -> dict[str, Any]:
    return _brief(encode(rescale), vertices=None, groups=None)


def _trusted(records: Iterable[Mapping[str, Any]]) -> Iterable[Rescale]:
    """The rescales that can be read. The scheduler does not depend on the past, so others are skipped."""
    for record in records:
        try:
            yield decode(Rescale, record)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            log.warning("A rescale of the past cannot be read: %s: %s", type(error).__name__, error)
