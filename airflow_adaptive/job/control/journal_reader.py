"""Finds the newest directive in the journal of the job."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DocumentError,
    JournalDocument,
    NewerFormatError,
    decode_document,
)
from airflow_adaptive.job.control.fence import FencedError
from airflow_adaptive.job.control.interfaces import DirectiveSource, JournalFiles

LISTING_INTERVAL_S: Final = 10.0
"""Interval between listings of the journal, in seconds. The reader polls the next document number more often, but a
compaction may have deleted that document before the reader saw it."""


class JournalReader(DirectiveSource):
    """Follows the journal to its newest valid document.

    A loop that observes the job writes to the journal regularly. If no new document appears for `orphan_timeout_s`, no
    process may be left that could stop the driver; for example, the task ended while no triggerer was running. The
    driver then stops.
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
        """Read the documents of a job, and ignore others. `report` is called once for each of them, and when the orphan timeout has expired."""
        self._files = files
        self._job = job
        self._clock = clock
        self._report = report
        self._orphan_timeout_s = orphan_timeout_s
        self._newest_since = (0, clock())
        self._reported: set[int] = set()
        self._newest: JournalDocument | None = None
        self._listed_at: float | None = None

    def newest(self) -> Directive | None:
        """See `interfaces.DirectiveSource`. Raises `FencedError` if a newer version of airflow-adaptive wrote a document, which may name another driver."""
        now = self._clock()
        if self._newest is None or self._listed_at is None or now - self._listed_at >= LISTING_INTERVAL_S:
            self._newest = self._from_listing()
            self._listed_at = self._clock()
        else:
            self._advance()
        return None if self._newest is None else self._unless_orphaned(self._newest)

    def _unless_orphaned(self, newest: JournalDocument) -> Directive:
        """Return the directive of the newest document, or STOP after the orphan timeout."""
        number, since = self._newest_since
        if newest.number != number:
            self._newest_since = (newest.number, self._clock())
        elif self._clock() - since > self._orphan_timeout_s:
            self._ignore(number, f"no new document for {self._orphan_timeout_s:g} s (orphan timeout): stopping")
            return replace(newest.directive, action=Action.STOP, standby=None)
        return newest.directive

    def _from_listing(self) -> JournalDocument | None:
        """Return the newest valid document of the listing, or the known one if the listing lags.

        The result is older only if the known document is gone, because the job directory was deleted and created again.
        """
        known = self._newest
        if known is not None and self._read(known.number) != known:
            known = None
        listed = sorted(self._files.journal_numbers(), reverse=True)
        documents = (self._read(number) for number in listed if known is None or number > known.number)
        return next((document for document in documents if document is not None), known)

    def _advance(self) -> None:
        """Read on from the newest document, past invalid ones. A document that is incomplete now may become valid."""
        number = self._newest.number if self._newest is not None else 0
        while (data := self._files.read_journal(number := number + 1)) is not None:
            self._newest = self._decode(number, data) or self._newest

    def _read(self, number: int) -> JournalDocument | None:
        return self._decode(number, self._files.read_journal(number))

    def _decode(self, number: int, data: bytes | None) -> JournalDocument | None:
        if data is None:
            return None
        try:
            document = decode_document(JournalDocument, data)
        except NewerFormatError as error:
            raise FencedError(f"journal document {number}: {error}") from error
        except DocumentError as error:
            self._ignore(number, str(error))
            return None
        if (document.job, document.number) != (self._job, number):
            self._ignore(number, f"its content is number {document.number!r} of job {document.job!r}")
            return None
        return document

    def _ignore(self, number: int, reason: str) -> None:
        if number not in self._reported:
            self._reported.add(number)
            self._report(f"journal document {number} ignored: {reason}")
