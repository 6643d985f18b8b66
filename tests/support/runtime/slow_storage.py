"""Filesystems that answer late, or not before a test releases them."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive._engine.journal.storage_threads import StorageThreads


class HangingFileSystem(LocalFileSystem):
    """A local disk that does not answer until it is released, like a network filesystem without its server.

    Attributes:
        folder: name of the only folder that hangs; empty if all folders hang.
        released: set when the filesystem answers again.
        calls: number of calls that have arrived at a folder that hangs.
    """

    cachable = False

    def __init__(self, folder: str = "") -> None:
        super().__init__()
        self.folder = folder
        self.released = threading.Event()
        self.calls = 0

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        self._hang(path)
        return super().ls(path, detail=detail, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        self._hang(path)
        return super().cat_file(path, start=start, end=end, **kwargs)

    def _hang(self, path: str) -> None:
        if not self.folder or self.folder in path.split("/"):
            self.calls += 1
            self.released.wait()


class LaggingFileSystem(LocalFileSystem):
    """A local disk whose listings lag behind its reads, like a network filesystem with cached attributes.

    Attributes:
        hidden: names that no listing contains.
    """

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.hidden: set[str] = set()

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        return [name for name in super().ls(path, detail=False, **kwargs) if name.rsplit("/", 1)[-1] not in self.hidden]


class MemoryStore(AbstractFileSystem):
    """An object store in memory that many jobs can list without a delay.

    Attributes:
        files: path -> content.
        calls: operation and path of each call, without repetitions, in order.
    """

    protocol = "memory-store"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.calls: dict[tuple[str, str], None] = {}
        self._folders: dict[str, list[str]] = {}

    def ls(self, path: str, detail: bool = False, **kwargs: Any) -> Any:
        self.calls["list", path] = None
        if not self._folders:
            for name in self.files:
                self._folders.setdefault(name.rpartition("/")[0], []).append(name)
        return self._folders.get(path, [])

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        self.calls["read", path] = None
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.calls["create", path] = None
        if path in self.files:
            raise FileExistsError(path)
        self.files[path] = value
        self._folders.setdefault(path.rpartition("/")[0], []).append(path)

    def rm_file(self, path: str) -> None:
        self._folders[path.rpartition("/")[0]].remove(path)
        del self.files[path]


def answer_in_virtual_time(delay_s: float) -> Callable[..., asyncio.Future[Any]]:
    """A replacement of the thread of a call: the storage answers after a virtual delay."""

    def start(threads: StorageThreads, work: Callable[[], Any]) -> asyncio.Future[Any]:
        async def answer() -> Any:
            await asyncio.sleep(delay_s)
            return work()

        task = asyncio.get_running_loop().create_task(answer())
        task.add_done_callback(threads._release)
        return task

    return start
