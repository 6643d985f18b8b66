"""The job directory of a safety simulation: one storage whose reads and writes take time, as Airflow and as the driver access it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from fsspec import AbstractFileSystem

from airflow_adaptive._core.protocol.codec import journal_name, journal_number
from airflow_adaptive._engine.journal import storage_threads
from airflow_adaptive.job.control.interfaces import DirectoryError
from tests.lab.fleet.kernel.kernel import Kernel
from tests.lab.fleet.kernel.threads import SimulatedQueue, SimulatedThread

ROOT = "jobs"


class SlowStore(AbstractFileSystem):
    """An object store. Each call blocks the calling thread, and takes effect in the middle of its duration.

    Attributes:
        files: path -> content.
        seconds: duration of a call.
    """

    protocol = "gs"
    cachable = False

    def __init__(self, kernel: Kernel, seconds: float) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.seconds = seconds
        self._kernel = kernel

    def call(self, effect: Callable[[], Any]) -> Any:
        self._kernel.sleep(self.seconds / 2)
        result = effect()
        self._kernel.sleep(self.seconds / 2)
        return result

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        return self.call(lambda: [name for name in self.files if name.rpartition("/")[0] == path])

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        data = self.call(lambda: self.files.get(path))
        if data is None:
            raise FileNotFoundError(path)
        return data[start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if self.call(lambda: self.files.setdefault(path, value)) != value:
            raise FileExistsError(path)

    def rm_file(self, path: str) -> None:
        self.call(lambda: self.files.pop(path, None))

    def remove_journal(self) -> None:
        """A user deletes the journals of all jobs, but no other files."""
        self.files = {path: data for path, data in self.files.items() if "/journal/" not in path}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let Airflow's calls run in simulated threads."""
        thread = patch.object(storage_threads, "Thread", partial(SimulatedThread, self._kernel))
        with thread, patch.object(storage_threads, "SimpleQueue", partial(SimulatedQueue, self._kernel)):
            yield


class DriverDirectory:
    """The job directory as one driver accesses it, in place of `HadoopJobDirectory`.

    Attributes:
        is_connected: whether the driver reaches the storage. Otherwise each call fails after `timeout_s`.
        read_began_at: beginning of the newest read of the journal that has found a document.
    """

    def __init__(self, store: SlowStore, kernel: Kernel, job: str, timeout_s: float) -> None:
        self.is_connected = True
        self.read_began_at = kernel.now
        self._store = store
        self._kernel = kernel
        self._folder = f"{ROOT}/{job}"
        self._timeout_s = timeout_s

    def journal_numbers(self) -> list[int]:
        names = self._call(lambda: self._store.ls(f"{self._folder}/journal"))
        return [number for name in names if (number := journal_number(name.rpartition("/")[2])) is not None]

    def read_journal(self, number: int) -> bytes | None:
        return self._read(f"journal/{journal_name(number)}")

    def read_status(self) -> bytes | None:
        return self._read("status.json")

    def write_status(self, data: bytes) -> None:
        path = f"{self._folder}/status.json"
        self._call(lambda: self._store.call(lambda: self._store.files.update({path: data})))

    def _read(self, name: str) -> bytes | None:
        path = f"{self._folder}/{name}"
        found: bytes | None = self._call(lambda: self._store.call(lambda: self._store.files.get(path)))
        return found

    def _call(self, access: Callable[[], Any]) -> Any:
        if not self.is_connected:
            self._kernel.sleep(self._timeout_s)
            raise DirectoryError("the storage does not answer")
        return access()
