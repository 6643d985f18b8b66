"""A job directory as the driver accesses it, over a simulated storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from airflow_adaptive._core.protocol.documents import MAX_DOCUMENT_BYTES, journal_name, journal_number
from airflow_adaptive.job.control.interfaces import DirectoryError
from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

STATUS = "status.json"


class SimulatedDriverDirectory:
    """The interface of `job.hadoop_directory.HadoopJobDirectory`. All calls block, and raise `DirectoryError`."""

    def __init__(self, storage: SimulatedStorage, uri: str) -> None:
        """Refer to the directory.

        Args:
            storage: storage that contains the directory.
            uri: URI of the directory, as the submission of the driver contains it.
        """
        self._storage = storage
        self._root = uri.partition("://")[2]
        self._status = STATUS

    def of_standby(self) -> SimulatedDriverDirectory:
        """See `HadoopJobDirectory`."""
        directory = copy(self)
        directory._status = "standby.json"
        return directory

    def checkpoint(self, query: str) -> str:
        """Return the path of a query's checkpoint."""
        return f"{self._root}/checkpoints/{query}"

    def journal_numbers(self) -> list[int]:
        """Return the numbers of the journal documents, in no order."""
        with _converting_errors(self._root):
            try:
                names = self._storage.names(f"{self._root}/journal")
            except FileNotFoundError:
                return []
        return [number for name in names if (number := journal_number(name)) is not None]

    def read_journal(self, number: int) -> bytes | None:
        """Return a journal document, or None if it does not exist."""
        return self._read(f"journal/{journal_name(number)}")

    def read_status(self) -> bytes | None:
        """Return the driver status of any driver, or None if there is none."""
        return self._read(self._status)

    def write_status(self, data: bytes) -> None:
        """Replace the driver status atomically."""
        with _converting_errors(self._root):
            self._storage.write(f"{self._root}/{self._status}", data)

    def _read(self, path: str) -> bytes | None:
        with _converting_errors(self._root):
            try:
                return self._storage.read(f"{self._root}/{path}")[: MAX_DOCUMENT_BYTES + 1]
            except FileNotFoundError:
                return None


@contextmanager
def _converting_errors(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DirectoryError(f"job directory {root}: {error}") from error
