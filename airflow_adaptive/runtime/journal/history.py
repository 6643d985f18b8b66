"""A job's past, as people see it: its transitions, what was decided, and the rescales that have ended.

All of it comes from the log. A log is compacted, so each rescale gets a document of its own as well; what a loop has logged and
not kept any more, because it was killed or the directory could not be written, the next turn or the next loop keeps.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Reversible, Sequence
from typing import Any

from airflow_adaptive.job.protocol.documents import JournalDocument, RescaleDocument
from airflow_adaptive.ports import JobChannel, JobDirectoryError
from airflow_adaptive.scheduler.history.rescale_summary import summarize
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.state import SchedulerState
from airflow_adaptive.scheduler.timeline import Rescale

log = logging.getLogger(__name__)

SHOWN_TRANSITIONS = 200
"""How many transitions are kept at hand for people; the log has more."""

SHOWN_DECISIONS = 20
SHOWN_RESCALES = 20

DECISION_BYTES = 6 << 10
RESCALE_BYTES = 16 << 10
"""Room for what is shown, as JSON: all that a job shows must fit into 64 KiB, which is all that some backends take."""

ALL_RESCALE_BYTES = 48 << 10
"""Room for rescales with all that they tell of each vertex, in a document of their own."""

ITEM_BYTES = 4 << 10
"""What is larger is shown without what it tells of each vertex; its document has all of it."""

MAX_TEXT_CHARACTERS = 300
"""Of a longer reason the beginning is shown."""


class History:
    """What one loop knows of the past, and sees to."""

    def __init__(self, channel: JobChannel, job: str, size: int) -> None:
        """Take note; nothing is read before `open`.

        Args:
            channel: the job's directory.
            job: id of the job.
            size: how many rescales are kept.
        """
        self._channel = channel
        self._job = job
        self._size = size
        self._read = False
        self._complaint: str | None = None
        self._unkept: deque[RescaleDocument] = deque()
        self.transitions: deque[dict[str, Any]] = deque(maxlen=SHOWN_TRANSITIONS)
        self.decisions: deque[dict[str, Any]] = deque(maxlen=SHOWN_DECISIONS)
        self.rescales: deque[Rescale] = deque(maxlen=size)

    @property
    def newest(self) -> int:
        """Number of the newest rescale that has ended, 0 without any."""
        return max((rescale.number for rescale in self.rescales), default=0)

    @property
    def is_kept(self) -> bool:
        """Whether all that the log has told has its own document, so that the log may be compacted."""
        return self._read and not self._unkept

    async def open(self) -> None:
        """Read what there is. Raises `JobDirectoryError` if that is not even possible for the log."""
        self._read = False
        for past in (self.transitions, self.decisions, self.rescales, self._unkept):
            past.clear()
        for document in await self._channel.history(SHOWN_TRANSITIONS):
            self.take(document)
        await self.keep()

    def take(self, document: JournalDocument) -> None:
        """Add what a journal document tells."""
        self.transitions.extend(document.transitions)
        self.decisions.extend(document.decisions)
        told = list(_trusted(document.rescales))
        self.rescales.extend(told)
        self._unkept.extend(map(self._document, told))

    async def keep(self) -> None:
        """Give each rescale its own document; what can't be done now is done later."""
        if self.is_kept:
            return
        try:
            if not self._read:
                self._merge(await self._channel.rescales(self._size))
            while self._unkept:
                await self._keep(self._unkept[0])
                self._unkept.popleft()
            self._complaint = None
        except JobDirectoryError as error:
            self._complain(f"rescales of job {self._job!r} can't be kept now, and will be later: {error}")

    def shown(self, state: SchedulerState) -> Mapping[str, Any]:
        """The past with what is under way, small and JSON-able; of rescales the oldest comes first, as of the rest."""
        rescales = list(self.rescales)
        if state.timeline.rescale is not None:
            rescales.append(state.timeline.rescale)
        return {
            "transitions": [_brief(transition, before=None, after=None) for transition in self.transitions],
            "decisions": newest_within(self.decisions, DECISION_BYTES, told=_brief),
            "rescale_history": newest_within(rescales[-SHOWN_RESCALES:], RESCALE_BYTES, told=_brief_rescale),
            "rescale_summary": encode(summarize(rescales)),
            "all_rescales": newest_within(rescales, ALL_RESCALE_BYTES, told=encode),
        }

    def _merge(self, kept: Sequence[RescaleDocument]) -> None:
        """Put what is kept before what only the log has."""
        newest = kept[-1].number if kept else 0
        logged = [rescale for rescale in self.rescales if rescale.number > newest]
        self.rescales.clear()
        self.rescales.extend(_trusted(document.rescale for document in kept))
        self.rescales.extend(logged)
        self._unkept = deque(map(self._document, logged))
        self._read = True

    async def _keep(self, document: RescaleDocument) -> None:
        if not await self._channel.record(document):
            log.warning("Job %s has kept another rescale as number %s", self._job, document.number)

    def _document(self, rescale: Rescale) -> RescaleDocument:
        return RescaleDocument(job=self._job, number=rescale.number, rescale=encode(rescale))

    def _complain(self, text: str) -> None:
        """Warn; a complaint that repeats with every turn is made once."""
        if text != self._complaint:
            log.warning("%s", text)
            self._complaint = text


def _as_it_is(item: Any) -> Any:
    return item


def newest_within(items: Reversible[Any], most_bytes: int, told: Callable[[Any], Any] = _as_it_is) -> list[Any]:
    """The newest of these items, as they are told, that take no more than so many bytes together.

    This is done at every publishing, and most of a long past does not fit: no more than one item is told that is not shown.

    Args:
        items: the newest last.
        most_bytes: room for the result, as JSON.
        told: gives an item's JSON-able form.

    Returns:
        the newest last.
    """
    shown: deque[Any] = deque()
    for item in map(told, reversed(items)):
        most_bytes -= len(json.dumps(item)) + 2
        if most_bytes < 0:
            break
        shown.appendleft(item)
    return list(shown)


def _brief(told: Mapping[str, Any], **instead: Any) -> dict[str, Any]:
    """What is told, with short texts, and with this instead of what is too wide."""
    short = {key: it[:MAX_TEXT_CHARACTERS] if isinstance(it, str) else it for key, it in told.items()}
    return short if len(json.dumps(short)) <= ITEM_BYTES else short | instead


def _brief_rescale(rescale: Rescale) -> dict[str, Any]:
    return _brief(encode(rescale), vertices=None, groups=None)


def _trusted(documents: Iterable[Mapping[str, Any]]) -> Iterable[Rescale]:
    """Those that can be read: nothing depends on the past but its telling."""
    for document in documents:
        try:
            yield decode(Rescale, document)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            log.warning("A rescale of the past can't be read: %s: %s", type(error).__name__, error)
