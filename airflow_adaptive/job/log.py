"""Finds the newest directive in the job's log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from airflow_adaptive.job.documents import Directive, DocumentError, LogDocument, decode_log

LISTING_INTERVAL_S: Final = 10.0
"""How often the log is listed: the next number is asked for more often, but it may have been compacted away unseen."""


class LogFiles(Protocol):
    """The log's documents as files."""

    def log_numbers(self) -> Iterable[int]:
        """Numbers of the documents that are there. Raises `DirectoryError`."""
        ...

    def read_log(self, number: int) -> bytes | None:
        """A document, None if it is not there. Raises `DirectoryError`."""
        ...


class LogReader:
    """Follows the log to its newest document that can be trusted."""

    def __init__(self, files: LogFiles, *, job: str, clock: Callable[[], float], report: Callable[[str], None]) -> None:
        """Start before the log's beginning.

        Args:
            files: the log.
            job: id of the job; a document of another job is not trusted.
            clock: monotonic, seconds.
            report: told once of each document that can't be trusted.
        """
        self._files = files
        self._job = job
        self._clock = clock
        self._report = report
        self._reported: set[int] = set()
        self._newest: LogDocument | None = None
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
        return None if self._newest is None else self._newest.directive

    def _listing_due(self) -> bool:
        return self._newest is None or self._listed_at is None or self._clock() - self._listed_at >= LISTING_INTERVAL_S

    def _from_listing(self) -> LogDocument | None:
        """The listing is the truth, also where it falls behind what was read: the directory was made anew then."""
        for number in sorted(self._files.log_numbers(), reverse=True):
            if self._newest is not None and number == self._newest.number:
                return self._newest
            document = self._trusted(number, self._files.read_log(number))
            if document is not None:
                return document
        return None

    def _advance(self) -> None:
        """Go on from the newest document, past those that can't be trusted (yet: one may be half-written)."""
        number = self._newest.number if self._newest is not None else 0
        while (data := self._files.read_log(number := number + 1)) is not None:
            self._newest = self._trusted(number, data) or self._newest

    def _trusted(self, number: int, data: bytes | None) -> LogDocument | None:
        if data is None:
            return None
        try:
            document = decode_log(data)
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
            self._report(f"log document {number} ignored: {reason}")
