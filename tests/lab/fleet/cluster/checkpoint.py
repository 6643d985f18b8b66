"""The checkpoint of a simulated query: the log of offsets and the log of commits, as files of a storage."""

from __future__ import annotations

from dataclasses import dataclass

from tests.lab.fleet.storage.simulated_storage import SimulatedStorage

OFFSETS = "offsets"
COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: the records from `start` to before `end`."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Head:
    """Position of a query in its checkpoint.

    Attributes:
        newest: last batch whose offsets are logged, None before the first one.
        committed: number of the last committed batch, -1 before the first one.
    """

    newest: Batch | None
    committed: int


class SimulatedCheckpoint:
    """One checkpoint. All calls block, and raise `OSError`."""

    def __init__(self, storage: SimulatedStorage, path: str) -> None:
        """Refer to a checkpoint; nothing is read yet."""
        self._storage = storage
        self._path = path

    def head(self) -> Head:
        """Return the position of the query."""
        number, data = self._newest(OFFSETS)
        committed, _ = self._newest(COMMITS)
        if number < 0:
            return Head(None, committed)
        start, end = data.split()
        return Head(Batch(number, int(start), int(end)), committed)

    def log_offsets(self, batch: Batch) -> None:
        """Log the offsets of a new batch. Raises `FileExistsError` if another query has logged the batch."""
        self._storage.create(f"{self._path}/{OFFSETS}/{batch.number}", f"{batch.start} {batch.end}".encode())

    def commit(self, number: int) -> None:
        """Commit a batch. Raises `FileExistsError` if another query has committed the batch."""
        self._storage.create(f"{self._path}/{COMMITS}/{number}", b"")

    def _newest(self, log: str) -> tuple[int, bytes]:
        """Return number and content of the newest entry of a log; (-1, b"") if the log is empty."""
        try:
            listed = max(map(int, self._storage.names(f"{self._path}/{log}")), default=-1)
        except FileNotFoundError:
            listed = -1
        newest, data = listed, b"" if listed < 0 else self._read(log, listed) or b""
        # The listings of some storages lag behind their reads.
        while (later := self._read(log, newest + 1)) is not None:
            newest, data = newest + 1, later
        return newest, data

    def _read(self, log: str, number: int) -> bytes | None:
        try:
            return self._storage.read(f"{self._path}/{log}/{number}")
        except FileNotFoundError:
            return None
