"""A simulated storage as a filesystem of fsspec, for the loops."""

from __future__ import annotations

from typing import Any

from fsspec import AbstractFileSystem

from tests.lab.fleet.storage.simulated_storage import SimulatedStorage


class SimulatedFileSystem(AbstractFileSystem):
    """The calls that `_engine.journal.storage.Storage` makes. All calls block in virtual time."""

    cachable = False

    def __init__(self, storage: SimulatedStorage) -> None:
        """Give access to a storage under its protocol."""
        super().__init__()
        self.protocol = storage.protocol
        self._storage = storage

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """List a folder; only names."""
        if detail:
            raise NotImplementedError("the loops list names")
        return [f"{path}/{name}" for name in self._storage.names(path)]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return a range of a file."""
        return self._storage.read(path)[start:end]

    def size(self, path: str) -> int:
        """Return the size of a file, in bytes."""
        return len(self._storage.read(path))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        """Create a file if absent (mode "create"), or write it."""
        if mode == "create":
            self._storage.create(path, value)
        else:
            self._storage.write(path, value)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self._storage.remove(path)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove a folder with its files."""
        for file in self._storage.files.paths(path):
            self._storage.remove(file)
