"""A job directory in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._core.protocol.documents import (
    DocumentError,
    DriverStatus,
    JournalDocument,
    NewerFormatError,
    RescaleDocument,
    decode_document,
    encode_document,
)

Document = TypeVar("Document", JournalDocument, RescaleDocument, DriverStatus)


class FakeJobDirectory:
    """A `JobDirectory` whose documents a test can read, create and damage.

    Several loops may share a directory. No method yields to the event loop, so each call is atomic.

    Attributes:
        job: id of the job.
        journal: number -> bytes of the journal document.
        kept: number -> bytes of the rescale document.
        reported: bytes of the driver status, None before the first.
        reported_by_standby: bytes of the status of the standby, None before the first.
        files: URI -> content of the other files.
        available: whether the operations succeed; if False, each operation raises `JobDirectoryError`.
    """

    def __init__(self, job: str = "job") -> None:
        self.job = job
        self.journal: dict[int, bytes] = {}
        self.kept: dict[int, bytes] = {}
        self.reported: bytes | None = None
        self.reported_by_standby: bytes | None = None
        self.files: dict[str, bytes] = {}
        self.available = True

    def report(self, status: DriverStatus) -> None:
        """Write a driver status, as the driver does."""
        self.reported = encode_document(status)

    async def newest(self) -> JournalDocument | None:
        """See `JobDirectory.newest`."""
        self._require_available()
        documents = (self._read(number) for number in sorted(self.journal, reverse=True))
        return next((document for document in documents if document is not None), None)

    async def read(self, number: int) -> JournalDocument | None:
        """See `JobDirectory.read`."""
        self._require_available()
        return self._read(number)

    async def create(self, document: JournalDocument) -> bool:
        """See `JobDirectory.create`."""
        self._require_available()
        data = encode_document(document)
        if self.journal.setdefault(document.number, data) != data:
            return False
        newest = await self.newest()
        return newest is not None and newest.number == document.number

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        """See `JobDirectory.history`."""
        older = [document for document in self._trusted() if before is None or document.number < before]
        return older[-limit:] if limit > 0 else []

    async def compact(self, keep: int) -> None:
        """See `JobDirectory.compact`."""
        if keep < 1:
            raise ValueError(f"keep={keep}: the newest document contains the state of the job and must stay")
        newest = await self.newest()
        removable = sorted(number for number in self.journal if newest is not None and number <= newest.number)
        for number in removable[:-keep]:
            del self.journal[number]
        for number in sorted(self.kept)[:-keep]:
            del self.kept[number]

    async def record(self, document: RescaleDocument) -> bool:
        """See `JobDirectory.record`."""
        self._require_available()
        data = encode_document(document)
        return self.kept.setdefault(document.number, data) == data

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """See `JobDirectory.rescales`."""
        self._require_available()
        read = ((number, _decoded(self.kept[number], RescaleDocument)) for number in sorted(self.kept)[-limit:])
        of_job = [it for number, it in read if it is not None and (it.job, it.number) == (self.job, number)]
        return of_job if limit > 0 else []

    async def status(self, *, of_standby: bool = False) -> DriverStatus | None:
        """See `JobDirectory.status`."""
        self._require_available()
        reported = self.reported_by_standby if of_standby else self.reported
        status = None if reported is None else _decoded(reported, DriverStatus)
        return status if status is not None and status.job == self.job else None

    async def file(self, uri: str, limit: int) -> bytes | None:
        """See `JobDirectory.file`."""
        self._require_available()
        content = self.files.get(uri)
        return content if content is None or len(content) <= limit else None

    def _require_available(self) -> None:
        if not self.available:
            raise JobDirectoryError(f"the directory of job {self.job!r} is not available, as the test requires")

    def _trusted(self) -> list[JournalDocument]:
        """Valid documents, oldest first; a document of a newer format raises an error, as in a real job directory."""
        self._require_available()
        documents = (self._read(number) for number in sorted(self.journal))
        return [document for document in documents if document is not None]

    def _read(self, number: int) -> JournalDocument | None:
        data = self.journal.get(number)
        document = None if data is None else _decoded(data, JournalDocument)
        if document is not None and document.job != self.job:
            raise JobDirectoryError(f"journal document {number} belongs to job {document.job!r}, not to {self.job!r}")
        return document if document is not None and document.number == number else None


def _decoded(data: bytes, kind: type[Document]) -> Document | None:
    try:
        return decode_document(kind, data)
    except NewerFormatError as error:
        raise JobDirectoryError(str(error)) from error
    except DocumentError:
        return None
