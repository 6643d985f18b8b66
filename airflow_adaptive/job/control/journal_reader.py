"""Finds the newest directive in the job's log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Protocol

from airflow_adaptive.job.protocol.codec import DocumentError, decode_journal
from airflow_adaptive.job.protocol.documents import Action, Directive, JournalDocument

LISTING_INTERVAL_S: Final = 10.0
"""How often the log is listed: the next number is asked for more often, but it may have been compacted away unseen."""


class JournalFiles(Protocol):
    """The log's documents as files."""

    def journal_numbers(self) -> Iterable[int]:
        """Numbers of the documents that are there. Raises `DirectoryError`."""
        ...

    def read_journal(self, number: int) -> bytes | None:
        """A document, None if it is not there. Raises `DirectoryError`."""
        ...


class JournalReader:
    """Follows the log to its newest document that can be trusted.

    Whoever looks after the job writes to its log now and then, if only to say so. After a long silence what was said last
    does not count any more: the task was ended while no triggerer ran, say, and nobody is left who could stop the driver.
    """

    def __init__(
        self,
        files: JournalFiles,
        *,
        job: str,
        clock: Callable[[], float],
        report: Callable[[str], None],
        orphan_timeout_s: float = math.inf,
    ) -> None:
        """Start before the log's beginning.

        Args:
            files: the log.
            job: id of the job; a document of another job is not trusted.
            clock: monotonic, seconds.
            report: told once of each document that can't be trusted, and of the end of the patience.
            orphan_timeout_s: after a silence of this length the word is to stop.
        """
        self._files = files
        self._job = job
        self._clock = clock
        self._report = report
        self._orphan_timeout_s = orphan_timeout_s
        self._spoken = (0, clock())
        self._reported: set[int] = set()
        self._newest: JournalDocument | None = None
        self._listed_at: float | None = None

    def newest(self) -> Directive | None:
        """Directive of the newest document that can be trusted, None if there is none.

        Raises:
            DirectoryError: the log can't be read now.
        """
        if self._listing_due():
            self._newest = self._from_listing()
            self._listed_at = self._clock()
        else:
            self._advance()
        return None if self._newest is None else self._counting(self._newest)

    def _counting(self, newest: JournalDocument) -> Directive:
        """What the newest document says, as long as that counts."""
        number, since = self._spoken
        if newest.number != number:
            self._spoken = (newest.number, self._clock())
        elif self._clock() - since > self._orphan_timeout_s and newest.directive.action is not Action.STOP:
            self._ignore(number, f"nobody has looked after the job for {self._orphan_timeout_s:g} s: stopping")
            return replace(newest.directive, action=Action.STOP)
        return newest.directive

    def _listing_due(self) -> bool:
        return self._newest is None or self._listed_at is None or self._clock() - self._listed_at >= LISTING_INTERVAL_S

    def _from_listing(self) -> JournalDocument | None:
        """The listing is the truth, also where it falls behind what was read: the directory was made anew then."""
        for number in sorted(self._files.journal_numbers(), reverse=True):
            if self._newest is not None and number == self._newest.number:
                return self._newest
            document = self._trusted(number, self._files.read_journal(number))
            if document is not None:
                return document
        return None

    def _advance(self) -> None:
        """Go on from the newest document, past those that can't be trusted (yet: one may be half-written)."""
        number = self._newest.number if self._newest is not None else 0
        while (data := self._files.read_journal(number := number + 1)) is not None:
            self._newest = self._trusted(number, data) or self._newest

    def _trusted(self, number: int, data: bytes | None) -> JournalDocument | None:
        if data is None:
            return None
        try:
            document = decode_journal(data)
        except DocumentError as error:
            self._ignore(number, str(error))
            return None
        if (document.job, document.number) != (self._job, number):
            self._ignore(number, f"it says that it is number {document.number!r} of job {document.job!r}")
            return None
        return document

    def _ignore(self, number: int, reason: str) -> None:
        if number not in self._reported:
            self._reported.add(number)
            self._report(f"journal document {number} ignored: {reason}")
