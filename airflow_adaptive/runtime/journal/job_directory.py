"""The job directory: the journal, which is the truth about a job, and the driver status.

```
<base>/<job>/journal/0000000042.json   one document per saved step, created only if absent
             history/0000000007.json      one document per rescale that has ended, created only if absent
             status.json                  the driver status
             checkpoints/<query>/         checkpoints of Spark
             code/<sha256>/               the staged script and the zip of the driver's runtime
```

Creating a document is a compare-and-swap: of two loops that both continue after document 41, one creates document 42. A document
that is half-written or foreign is reported once and skipped, and its number is not used again (see `append`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ParamSpec, TypeVar

from airflow_adaptive.job.protocol.codec import (
    MAX_DOCUMENT_BYTES,
    DocumentError,
    NewerFormatError,
    decode_journal,
    decode_rescale,
    decode_status,
    encode_journal,
    encode_rescale,
    journal_name,
    journal_number,
)
from airflow_adaptive.job.protocol.documents import DriverStatus, JournalDocument, RescaleDocument
from airflow_adaptive.ports import ForeignDirectoryError, JobChannel, JobDirectoryError
from airflow_adaptive.runtime.journal.storage import Storage

JOURNAL = "journal"
HISTORY = "history"
STATUS = "status.json"
CHECKPOINTS = "checkpoints"

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Id of a job: a valid name of a folder on any storage."""

logger = logging.getLogger(__name__)

READS_AT_ONCE = 16
"""Concurrent reads of a history: it has many small files, and an object store needs about 20 ms for each."""

Document = TypeVar("Document", JournalDocument, RescaleDocument, DriverStatus)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class JobDirectory:
    """The `JobChannel` over a storage. Blocking work runs in threads and is abandoned after `timeout_s`."""

    def __init__(self, base: Storage, job: str, *, timeout_s: float = 60.0) -> None:
        """Nothing is read or written yet.

        Args:
            base: storage that contains the directories of all jobs.
            job: id of the job, see `JOB_ID`.
            timeout_s: seconds that one operation may take.

        Raises:
            ValueError: the id is not a valid name of a folder.
        """
        if not JOB_ID.fullmatch(job):
            raise ValueError(f"job id {job!r} must match {JOB_ID.pattern}")
        self._job = job
        self._storage = base.below(job)
        self._timeout_s = timeout_s
        self._reported: set[str] = set()
        self._has_seen_journal = False
        """Whether the journal existed: then a missing journal is an error, and no new journal is begun."""
        self._has_seen_status = False
        """Whether a driver status existed."""

    @property
    def storage(self) -> Storage:
        """Files of this job."""
        return self._storage

    @property
    def uri(self) -> str:
        """URI of the directory as Spark reads it. Raises `JobDirectoryError` if Spark cannot read it."""
        return self._storage.uri()

    @property
    def checkpoints_uri(self) -> str:
        """URI of the folder of the queries' checkpoints. Raises `JobDirectoryError` if Spark cannot read it."""
        return self._storage.uri(CHECKPOINTS)

    async def newest(self) -> JournalDocument | None:
        """See `JobChannel.newest`."""
        return await self.call(self._newest)

    async def read(self, number: int) -> JournalDocument | None:
        """See `JobChannel.read`."""
        return await self.call(self._read, number)

    async def create(self, document: JournalDocument) -> bool:
        """See `JobChannel.create`."""
        return await self.call(self._create, document)

    async def history(self, limit: int) -> Sequence[JournalDocument]:
        """See `JobChannel.history`."""
        return await self.call(self._history, limit)

    async def compact(self, keep: int) -> None:
        """See `JobChannel.compact`."""
        await self.call(self._compact, keep)

    async def record(self, document: RescaleDocument) -> bool:
        """See `JobChannel.record`."""
        path, data = _path(HISTORY, document.number), encode_rescale(document)
        return await self.call(self._storage.create, path, data, folders=1)

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """See `JobChannel.rescales`."""
        return await self.call(self._rescales, limit)

    async def status(self) -> DriverStatus | None:
        """See `JobChannel.status`."""
        return await self.call(self._status)

    async def call(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Run blocking work on the storage in a thread.

        Raises:
            JobDirectoryError: the work took longer than `timeout_s`; whether the storage completed the work is unknown.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.to_thread(work, *args, **kwargs)
        except TimeoutError as error:
            raise JobDirectoryError(
                f"the storage of the job directory did not answer within {self._timeout_s:g} s: check that the storage is reachable"
            ) from error

    def _newest(self) -> JournalDocument | None:
        newest = next(self._newest_first(), None)
        self._has_seen_journal = self._has_seen_journal or newest is not None
        return newest

    def _newest_first(self) -> Iterator[JournalDocument]:
        documents = (self._read(number) for number in reversed(self._numbers()))
        return (document for document in documents if document is not None)

    def _numbers(self, folder: str = JOURNAL) -> list[int]:
        numbers = (journal_number(name) for name in self._storage.names(folder))
        return sorted(number for number in numbers if number is not None)

    def _read(self, number: int) -> JournalDocument | None:
        path = _path(JOURNAL, number)
        document = self._decoded(path, decode_journal)
        if document is not None and document.job != self._job:
            raise ForeignDirectoryError(
                f"{self._storage.uri(path)} was written by job {document.job!r}: give each job a directory of its own"
            )
        if document is not None and document.number != number:
            self._report(path, f"the document has number {document.number}")
            return None
        return document

    def _create(self, document: JournalDocument) -> bool:
        data = encode_journal(document)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ValueError(
                f"journal document {document.number} has {len(data)} bytes, more than {MAX_DOCUMENT_BYTES}"
            )
        # Staging creates the directory. A loop that finds no directory therefore does not see a new job, but a storage that is
        # not mounted.
        try:
            if not self._storage.create(
                _path(JOURNAL, document.number), data, folders=0 if self._has_seen_journal else 1
            ):
                return False
        except JobDirectoryError:
            self._require_journal()
            raise
        # After a compaction the number of a loop that was frozen is unused again, but its document is not the newest.
        newest = self._newest()
        return newest is not None and newest.number == document.number

    def _history(self, limit: int) -> Sequence[JournalDocument]:
        newest_first = self._newest_first()
        return [document for document, _ in zip(newest_first, range(limit), strict=False)][::-1]

    def _compact(self, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: the newest document holds the job's state, it must stay")
        newest = self._newest()
        if newest is None:
            return
        trusted = [number for number in self._numbers() if number <= newest.number]
        for number in trusted[:-keep]:
            self._storage.remove(_path(JOURNAL, number))
        for number in self._numbers(HISTORY)[:-keep]:
            self._storage.remove(_path(HISTORY, number))

    def _rescales(self, limit: int) -> Sequence[RescaleDocument]:
        numbers = self._numbers(HISTORY)[-limit:] if limit > 0 else []
        with ThreadPoolExecutor(READS_AT_ONCE) as readers:
            documents = list(readers.map(self._rescale, numbers))
        return [document for document in documents if document is not None]

    def _rescale(self, number: int) -> RescaleDocument | None:
        path = _path(HISTORY, number)
        document = self._decoded(path, decode_rescale)
        if document is None or (document.job, document.number) == (self._job, number):
            return document
        self._report(path, f"it is number {document.number} of job {document.job!r}")
        return None

    def _require_journal(self) -> None:
        """Raise an error if the journal disappeared, and with it the checkpoints of the job: no second journal may begin."""
        if self._has_seen_journal and not self._numbers():
            raise JobDirectoryError(
                f"{self._storage.uri(JOURNAL)} was there and is gone: bring the directory of the job back (is the storage "
                "mounted?); no new journal begins in its place, because the checkpoints would be missing"
            )

    def _status(self) -> DriverStatus | None:
        status = self._decoded(STATUS, decode_status)
        if status is None and self._has_seen_status:
            self._require_journal()
        self._has_seen_status = self._has_seen_status or status is not None
        if status is not None and status.job != self._job:
            self._report(STATUS, f"it belongs to job {status.job!r}")
            return None
        return status

    def _decoded(self, path: str, decode: Callable[[bytes], Document]) -> Document | None:
        data = self._storage.read(path, MAX_DOCUMENT_BYTES)
        if data is None:
            return None
        try:
            return decode(data)
        except NewerFormatError as error:
            raise ForeignDirectoryError(f"{self._storage.uri(path)}: {error}") from error
        except DocumentError as error:
            self._report(path, str(error))
            return None

    def _report(self, path: str, reason: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            logger.warning("Job %s: ignoring %s in its job directory: %s", self._job, path, reason)


async def append(channel: JobChannel, document: JournalDocument) -> JournalDocument | None:
    """Append a document to the journal, and skip numbers that an invalid document occupies.

    Args:
        channel: the job directory.
        document: the document; its number follows the newest one that its author has read.

    Returns:
        The document as it was created, possibly with a higher number; None if another loop was first.

    Raises:
        JobDirectoryError: the journal cannot be written now; whether the document was created is unknown.
    """
    while not await channel.create(document):
        newest = await channel.newest()
        if newest is not None and newest.number >= document.number:
            return None
        document = replace(document, number=document.number + 1)
    return document


def _path(folder: str, number: int) -> str:
    return f"{folder}/{journal_name(number)}"
