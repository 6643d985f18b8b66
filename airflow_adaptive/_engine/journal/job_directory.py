"""The job directory: the journal, which is the truth about a job, and the driver status.

```
<base>/<job>/owners/0000000001.json    the task that runs the job, created only if absent
             journal/0000000042.json   one document per saved step, created only if absent
             history/0000000007.json      one document per rescale that has ended, created only if absent
             status.json                  the driver status
             standby.json                 the status of the driver that is to replace the driver
             checkpoints/<query>/         checkpoints of Spark
             code/<sha256>/               the staged script and the zip of the driver's runtime
```

`<base>/<DAG id>~<task id>/<job>` is the directory of a job of a mapped task (`JobKey.folder`).

Creating a document is a compare-and-swap: of two loops that both continue after document 41, one creates document 42. A document
that is half-written or foreign is reported once and skipped, and its number is not used again (see `append`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from airflow_adaptive._core.ports import ForeignDirectoryError, JobDirectory, JobDirectoryError, JobKey, OwnedJobError
from airflow_adaptive._core.protocol.documents import (
    MAX_DOCUMENT_BYTES,
    DocumentError,
    DriverStatus,
    JournalDocument,
    NewerFormatError,
    RescaleDocument,
    decode_document,
    encode_document,
    journal_name,
    journal_number,
)
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import StorageThreads

JOURNAL = "journal"
HISTORY = "history"
STATUS = "status.json"
STANDBY_STATUS = "standby.json"
OWNERS = "owners"

MAX_OWNER_BYTES = 4096
"""Maximum size of the document of an owner."""

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 16
"""Concurrent calls of one operation: a journal has many small files, and an object store needs about 20 ms for each."""

MAX_HISTORY_ATTEMPTS = 8
"""Failed reads of a document of the past, in the background, after which the document counts as missing. The attempts of a loop take two
minutes, and a loop that started with a damaged document of the past would otherwise never compact its journal."""

MOVE_TIMEOUT_S = 3600.0
"""Longest time of a move, which copies each file on an object store. Only commands of users move folders."""

LEAST_BYTES_PER_S = 1 << 20
"""Throughput of a slow storage, for the timeout of large files."""

Document = TypeVar("Document", JournalDocument, RescaleDocument, DriverStatus)
Result = TypeVar("Result")


class FsspecJobDirectory:
    """The `JobDirectory` of the job with this name (`JobKey`) over a storage that contains the directories of all jobs.

    Each call to the storage runs in a thread and is abandoned after `timeout_s`. A name that is no job key raises `ValueError`.
    """

    def __init__(self, base: Storage, job: str, *, timeout_s: float = 60.0) -> None:
        self._job = job
        self._base = base.location
        self._storage = base.below(JobKey.parse(job).folder)
        self._timeout_s = timeout_s
        self._reported: set[str] = set()
        self._failed_reads: Counter[str] = Counter()
        """Failed reads of each document of the past."""
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

    async def newest(self) -> JournalDocument | None:
        """See `JobDirectory.newest`."""
        newest = await self._first_valid(reversed(await self._numbers()))
        while newest is not None and (later := await self.read(newest.number + 1)) is not None:
            newest = later  # The listings of some stores lag behind their reads.
        self._has_seen_journal = self._has_seen_journal or newest is not None
        return newest

    async def create(self, document: JournalDocument) -> bool:
        """See `JobDirectory.create`."""
        path, data = _path(JOURNAL, document.number), encode_document(document)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise ValueError(
                f"journal document {document.number} has {len(data)} bytes, more than {MAX_DOCUMENT_BYTES}"
            )
        # Staging creates the directory. A loop that finds no directory therefore does not see a new job, but a storage that is
        # not mounted.
        try:
            is_created = await self._call(
                partial(self._storage.create, path, data, folders=0 if self._has_seen_journal else 1)
            )
        except JobDirectoryError:
            await self._require_journal()
            raise
        return is_created and await self._is_newest(document.number, data)

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        """See `JobDirectory.history`."""
        numbers = [number for number in await self._numbers(urgent=False) if before is None or number < before]
        documents: list[JournalDocument] = []
        while numbers and len(documents) < limit:
            missing = limit - len(documents)
            numbers, newest = numbers[:-missing], numbers[-missing:]
            documents = await _in_parallel(partial(self._past, JOURNAL, self.read), newest) + documents
        return documents

    async def compact(self, keep: int) -> None:
        """See `JobDirectory.compact`."""
        if keep < 1:
            raise ValueError(f"keep={keep}: the newest document holds the job's state, it must stay")
        newest = await self.newest()
        if newest is None:
            return
        trusted = [number for number in await self._numbers() if number <= newest.number]
        await _in_parallel(partial(self._remove, JOURNAL), trusted[:-keep])
        await _in_parallel(partial(self._remove, HISTORY), (await self._numbers(HISTORY))[:-keep])

    async def record(self, document: RescaleDocument) -> bool:
        """See `JobDirectory.record`."""
        path, data = _path(HISTORY, document.number), encode_document(document)
        return await self._call(partial(self._storage.create, path, data, folders=1))

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """See `JobDirectory.rescales`."""
        numbers = (await self._numbers(HISTORY, urgent=False))[-limit:] if limit > 0 else []
        return await _in_parallel(partial(self._past, HISTORY, self._rescale_document), numbers)

    async def status(self, *, of_standby: bool = False) -> DriverStatus | None:
        """See `JobDirectory.status`."""
        name = STANDBY_STATUS if of_standby else STATUS
        status = await self._decoded(name, DriverStatus)
        if not of_standby:
            if status is None and self._has_seen_status:
                await self._require_journal()
            self._has_seen_status = self._has_seen_status or status is not None
        if status is not None and status.job != self._job:
            self._report(name, f"it belongs to job {status.job!r}")
            return None
        return status

    async def file(self, uri: str, limit: int) -> bytes | None:
        """See `JobDirectory.file`."""
        folder, _, path = uri.partition(f"{self._storage.uri()}/")
        if folder or not path:
            return None
        content = await self._call(partial(self._storage.read, path, limit))
        return content if content is None or len(content) <= limit else None

    async def create_file(self, path: str, data: bytes) -> bool:
        """Create a file of any size if its name is unused, see `Storage.create`. The timeout grows with the size. Raises `JobDirectoryError`.

        Only tasks on workers create large files, one after the other, in an event loop of their own. The long calls therefore
        occupy no thread of a control loop.
        """
        timeout_s = self._timeout_s + len(data) / LEAST_BYTES_PER_S
        return await self._call(partial(self._storage.create, path, data), timeout_s=timeout_s)

    async def claim(
        self, task: str, moved_from: str | None = None, connections: Mapping[str, str] | None = None
    ) -> None:
        """Let the directory belong to a task, unless it belongs to another task or to another job.

        Args:
            task: the task, as `<DAG id>/<task id>`.
            moved_from: task from which the user moves the job; None without a move.
            connections: Airflow connections with which the task runs the job, see `connections`.

        Raises:
            OwnedJobError: the directory belongs to another task.
            ForeignDirectoryError: the directory belongs to another job, or its owner cannot be read.
            JobDirectoryError: the directory cannot be used now.
        """
        number = max(await self._numbers(OWNERS), default=0)
        while True:
            document = await self._owner(number) if number else {}
            owner = document.get("task")
            if owner == task and document.get("connections") == connections:
                return
            if owner not in (None, task, moved_from):
                raise OwnedJobError(self._job, str(owner), task, self._storage.uri(_path(OWNERS, number)))
            number += 1
            claim = {"job": self._job, "task": task, "connections": connections}
            if await self.create_file(_path(OWNERS, number), json.dumps(claim).encode()):
                return

    async def connections(self) -> Mapping[str, str] | None:
        """Return the Airflow connections with which the task runs the job, None if they are unknown. Raises as `claim`."""
        number = max(await self._numbers(OWNERS), default=0)
        found = (await self._owner(number)).get("connections") if number else None
        return found if isinstance(found, Mapping) else None

    async def _owner(self, number: int) -> Mapping[str, Any]:
        """Return the document of the task to which the directory belongs. Raises as `claim`."""
        path = _path(OWNERS, number)
        content = await self._call(partial(self._storage.read, path, MAX_OWNER_BYTES))
        try:
            document: dict[str, Any] = json.loads(content or b"")
            job, _ = document["job"], document["task"]
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise ForeignDirectoryError(
                f"{self._storage.uri(path)} does not name the task to which the job belongs ({type(error).__name__}): restore the file, or remove "
                "it if only one task runs the job"
            ) from error
        if job != self._job:
            raise ForeignDirectoryError(
                f"{self._storage.uri(path)} belongs to job {job!r}: use another job id or another job_directory"
            )
        return document

    async def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder, see `Storage.names`."""
        return await self._call(partial(self._storage.names, folder))

    async def remove_folder(self, folder: str) -> None:
        """Remove a folder with its files, see `Storage.remove_folder`."""
        await self._call(partial(self._storage.remove_folder, folder))

    async def move_folder(self, folder: str, target: str) -> None:
        """Move a folder with its files, see `Storage.move_folder`."""
        await self._call(partial(self._storage.move_folder, folder, target), timeout_s=MOVE_TIMEOUT_S)

    async def _call(self, work: Callable[[], Result], *, urgent: bool = True, timeout_s: float | None = None) -> Result:
        self._threads = threads = StorageThreads.of(self._base)
        return await threads.call(work, timeout_s or self._timeout_s, urgent=urgent, part=self._job)

    async def _numbers(self, folder: str = JOURNAL, *, urgent: bool = True) -> list[int]:
        names = await self._call(partial(self._storage.names, folder), urgent=urgent)
        return sorted(number for name in names if (number := journal_number(name)) is not None)

    async def _first_valid(self, numbers: Iterable[int]) -> JournalDocument | None:
        for number in numbers:
            if (document := await self.read(number)) is not None:
                return document
        return None

    async def _remove(self, folder: str, number: int) -> None:
        await self._call(partial(self._storage.remove, _path(folder, number)))

    async def _past(self, folder: str, read: Callable[..., Awaitable[Document | None]], number: int) -> Document | None:
        """Read a document of the past. A document that several calls could not read counts as missing."""
        path = _path(folder, number)
        try:
            return await read(number, urgent=False)
        except JobDirectoryError as error:
            self._failed_reads[path] += 1
            if self._failed_reads[path] < MAX_HISTORY_ATTEMPTS:
                raise
            self._report(path, str(error))
            return None

    async def read(self, number: int, *, urgent: bool = True) -> JournalDocument | None:
        """See `JobDirectory.read`."""
        path = _path(JOURNAL, number)
        document = await self._decoded(path, JournalDocument, urgent=urgent)
        if document is not None and document.job != self._job:
            raise ForeignDirectoryError(
                f"{self._storage.uri(path)} was written by job {document.job!r}: use a separate directory for each job"
            )
        if document is not None and document.number != number:
            self._report(path, f"the document has number {document.number}")
            return None
        return document

    async def _rescale_document(self, number: int, *, urgent: bool) -> RescaleDocument | None:
        path = _path(HISTORY, number)
        document = await self._decoded(path, RescaleDocument, urgent=urgent)
        if document is None or (document.job, document.number) == (self._job, number):
            return document
        self._report(path, f"it is number {document.number} of job {document.job!r}")
        return None

    async def _is_newest(self, number: int, data: bytes) -> bool:
        """Return whether a document that was just created is the newest, with the content that it was given.

        After a compaction the number of a loop that was frozen is unused again, but its document is not the newest. The document
        itself may be missing in the listing, because the listings of some stores lag.
        """
        newer = (later for later in reversed(await self._numbers()) if later > number)
        if await self._first_valid(newer) is not None:
            return False
        self._has_seen_journal = True
        return await self._call(partial(self._storage.read, _path(JOURNAL, number), MAX_DOCUMENT_BYTES)) == data

    async def _require_journal(self) -> None:
        """Raise an error if the journal disappeared, and with it the checkpoints of the job: no second journal may begin."""
        if self._has_seen_journal and not await self._numbers():
            raise JobDirectoryError(
                f"{self._storage.uri(JOURNAL)} has disappeared: restore the directory of the job (is the storage "
                "mounted?); no new journal begins in its place, because the checkpoints would be missing"
            )

    async def _decoded(self, path: str, kind: type[Document], *, urgent: bool = True) -> Document | None:
        data = await self._call(partial(self._storage.read, path, MAX_DOCUMENT_BYTES), urgent=urgent)
        if data is None:
            return None
        try:
            return decode_document(kind, data)
        except NewerFormatError as error:
            raise ForeignDirectoryError(f"{self._storage.uri(path)}: {error}") from error
        except DocumentError as error:
            self._report(path, str(error))
            return None

    def _report(self, path: str, reason: str) -> None:
        if path not in self._reported:
            self._reported.add(path)
            logger.warning("Job %s: ignoring %s in its job directory: %s", self._job, path, reason)


async def _in_parallel(call: Callable[[int], Awaitable[Result | None]], numbers: Iterable[int]) -> list[Result]:
    """Call a function for each number; return the results that are not None, in the order of the numbers."""
    limit = asyncio.Semaphore(CALLS_AT_ONCE)

    async def call_once(number: int) -> Result | None:
        async with limit:
            return await call(number)

    results = await asyncio.gather(*map(call_once, numbers))
    return [result for result in results if result is not None]


async def append(directory: JobDirectory, document: JournalDocument) -> tuple[JournalDocument, bool]:
    """Append a document to the journal after the newest one that its author has read, and skip numbers that an invalid document occupies.

    Returns:
        The document as it was created, possibly with a higher number, and True; if another loop was first, the document with this number,
        and False.

    Raises:
        JobDirectoryError: the journal cannot be written now; whether the document was created is unknown.
    """
    while not await directory.create(document):
        other = await directory.read(document.number)
        if other is not None:
            return other, False
        document = replace(document, number=document.number + 1)
    return document, True


def _path(folder: str, number: int) -> str:
    return f"{folder}/{journal_name(number)}"
