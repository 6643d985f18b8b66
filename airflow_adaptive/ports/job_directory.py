"""The port of the job directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from airflow_adaptive.job.protocol.documents import DriverStatus, JournalDocument, RescaleDocument


class JobDirectory(Protocol):
    """The job directory: the journal, the history and the driver status."""

    async def newest(self) -> JournalDocument | None:
        """Return the newest valid journal document, None without one. Raises `JobDirectoryError`."""
        ...

    async def read(self, number: int) -> JournalDocument | None:
        """Return journal document `number`, None without one. Raises `JobDirectoryError`."""
        ...

    async def create(self, document: JournalDocument) -> bool:
        """Create the journal document if its number is unused, and return whether the document is now the newest.

        False means that another document has the number. A repeated call with the same document returns True, so a caller that
        lost the answer can call again. Raises `JobDirectoryError`.
        """
        ...

    async def history(self, limit: int, before: int | None = None) -> Sequence[JournalDocument]:
        """Return at most the `limit` newest journal documents, oldest first. Raises `JobDirectoryError`.

        Args:
            limit: greatest number of documents.
            before: only documents with a lower number; None for all documents.
        """
        ...

    async def compact(self, keep: int) -> None:
        """Remove all journal documents except the newest `keep`, and likewise rescale documents. Raises `JobDirectoryError`."""
        ...

    async def record(self, document: RescaleDocument) -> bool:
        """Create the rescale document if its number is unused, and return whether the document exists now.

        False means that another document has the number. A repeated call with the same document returns True. Raises
        `JobDirectoryError`.
        """
        ...

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        """Return at most the `limit` newest valid rescale documents, oldest first. Raises `JobDirectoryError`."""
        ...

    async def status(self) -> DriverStatus | None:
        """Return the newest driver status, None without a valid one. Raises `JobDirectoryError`."""
        ...

    async def file(self, uri: str, limit: int) -> bytes | None:
        """Return the content of a file of the directory, by its URI.

        None if the file does not exist, is not in the directory, or has more than `limit` bytes. Raises `JobDirectoryError`.
        """
        ...
