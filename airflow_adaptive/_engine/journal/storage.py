"""Files under one root of any fsspec filesystem, with the primitive on which the journal is built: create if absent.

On a local filesystem a complete temporary file is linked to its name; on an object store a conditional PUT creates the object.
Both operations are a compare-and-swap: of several writers that create the same name, exactly one succeeds. No file is renamed.
"""

from __future__ import annotations

import errno
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from weakref import WeakSet

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive._core.ports import JobDirectoryError

SPARK_SCHEMES = {"file": "file", "s3": "s3a", "gs": "gs"}
"""Protocol of fsspec -> scheme with which Spark reads the same file."""

PROBE = ".create-if-absent"

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems without hard links."""

ADVICE = {
    errno.ENOSPC: "free some space on it",
    errno.EDQUOT: "free some space on it, or raise the quota",
    errno.EROFS: "mount it writable",
}
"""Fix for an error of the operating system."""

_proven: WeakSet[AbstractFileSystem] = WeakSet()
"""Filesystems that create a file only if it is absent."""


class Storage:
    """Blocking access to the files under a root, for calls in a thread. Each failure is a `JobDirectoryError`."""

    def __init__(self, filesystem: AbstractFileSystem, root: str, connection: str | None = None) -> None:
        """Refer to the storage; read and write nothing yet.

        Args:
            filesystem: filesystem of the files, with its credentials.
            root: path on the filesystem, as `path` belongs to `fs` in a `UPath` and in Airflow's `ObjectStoragePath`.
            connection: Airflow connection with the credentials of the filesystem, for its errors.
        """
        self._connection = connection
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._local = isinstance(filesystem, LocalFileSystem)

    @classmethod
    def at(cls, url: str) -> Storage:
        """Return a storage at an fsspec URL or a local path, with the credentials that the library of the filesystem finds."""
        filesystem, root = url_to_fs(url)
        return cls(filesystem, root)

    @property
    def location(self) -> str:
        """Protocol and root. Storages with the same location are the same storage."""
        return f"{self._protocol}://{self._root}"

    def below(self, folder: str) -> Storage:
        """Return a storage at a folder of this storage."""
        return Storage(self._filesystem, self._path(folder), self._connection)

    def uri(self, path: str = "") -> str:
        """Return the URI with which Spark reads a file of this storage.

        Raises:
            JobDirectoryError: Spark cannot read the filesystem.
        """
        protocol = self._protocol
        if protocol not in SPARK_SCHEMES:
            known = ", ".join(SPARK_SCHEMES)
            raise JobDirectoryError(
                f"job directory {self._root!r}: {protocol!r} is not one of {known}, which Spark reads too"
            )
        return f"{SPARK_SCHEMES[protocol]}://{self._path(path)}"

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder; none if the folder does not exist."""
        path = self._path(folder)
        with self._explained(path):
            self._filesystem.invalidate_cache(path)
            try:
                return [found.rstrip("/").rsplit("/", 1)[-1] for found in self._filesystem.ls(path, detail=False)]
            except FileNotFoundError:
                return []

    def read(self, path: str, limit: int) -> bytes | None:
        """Return the bytes of a file, at most `limit + 1`; None if the file does not exist."""
        full = self._path(path)
        with self._explained(full):
            return self._read(full, limit)

    def create(self, path: str, data: bytes, *, folders: int | None = None) -> bool:
        """Create a file if its name is unused.

        Args:
            path: path of the file.
            data: content of the file.
            folders: number of missing parent folders that the call creates (object stores have none); None for all.

        Returns:
            True if the file now contains `data`, also if it did before, so that a caller that lost the answer can repeat the
            call. False if the file has other content.
        """
        full = self._path(path)
        with self._explained(full):
            self._require_create_if_absent()
            return self._create(full, data, folders=folders)

    def remove(self, path: str) -> None:
        """Remove a file. The call is idempotent."""
        full = self._path(path)
        with self._explained(full), suppress(FileNotFoundError):
            self._filesystem.rm_file(full)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with its files. The call is idempotent."""
        full = self._path(folder)
        with self._explained(full), suppress(FileNotFoundError):
            self._filesystem.invalidate_cache(full)
            self._filesystem.rm(full, recursive=True)

    def move_folder(self, folder: str, target: str) -> None:
        """Move a folder with its files to an unused name. On an object store the call copies all files, and then removes them."""
        source, moved = self._path(folder), self._path(target)
        with self._explained(source):
            self._filesystem.invalidate_cache(source)
            if self._local:
                Path(source).rename(moved)
                return
            files = self._filesystem.find(
                source
            )  # A recursive copy of fsspec would also copy the folders, which an object store does not have.
            self._filesystem.copy(files, [f"{moved}{file.removeprefix(source)}" for file in files])
            self._filesystem.rm(source, recursive=True)

    @property
    def _protocol(self) -> str:
        protocol = self._filesystem.protocol
        return protocol if isinstance(protocol, str) else protocol[0]

    @property
    def _account(self) -> str:
        return "the user of Airflow" if self._connection is None else f"connection {self._connection!r}"

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _read(self, path: str, limit: int) -> bytes | None:
        self._filesystem.invalidate_cache(path)
        try:
            return cast(bytes, self._filesystem.cat_file(path, start=0, end=limit + 1))
        except FileNotFoundError:
            return None
        except OSError:
            if self._filesystem.size(path) == 0:  # Object stores refuse any range of an empty object.
                return b""
            raise

    def _create(self, path: str, data: bytes, *, folders: int | None = None) -> bool:
        try:
            if self._local:
                create_locally(Path(path), data, folders=folders)
            else:
                self._filesystem.pipe_file(path, data, mode="create")
        except OSError:
            # Stores report a lost race with different codes (409, 412), and a repeated request can lose to itself: compare contents.
            found = self._read(path, len(data))
            if found is None:
                raise
            return found == data
        else:
            return True

    def _require_create_if_absent(self) -> None:
        """Refuse a filesystem on which a "create" overwrites, because two loops could both take themselves for the first."""
        if self._local or self._filesystem in _proven:
            return
        probe = self._path(PROBE)
        if not _knows_create_mode(self._filesystem):
            self._refuse("its fsspec filesystem has no atomic creation")
        self._create(probe, b"first")
        if self._create(probe, b"second"):
            self._refuse("its server ignores If-None-Match on PUT")
        _proven.add(self._filesystem)

    def _refuse(self, reason: str) -> None:
        raise _refusal(f"{self._root!r} on {self._protocol!r}", reason)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Turn the errors of all filesystems (botocore, aiohttp, OSError) into one error with a fix."""
        try:
            yield
        except JobDirectoryError:
            raise
        except PermissionError as error:
            raise JobDirectoryError(
                f"no permission for {path!r} on {self._protocol!r}: {self._account} must be allowed to read, write and remove files "
                f"there ({error})"
            ) from error
        except FileNotFoundError as error:
            raise JobDirectoryError(
                f"{path!r} on {self._protocol!r} has no parent: create the bucket or directory (or mount it), or name "
                f"another one ({error})"
            ) from error
        except Exception as error:
            general = f"check that the storage answers, and check its address and the credentials of {self._account}"
            advice = ADVICE.get(getattr(error, "errno", None) or 0, general)
            raise JobDirectoryError(
                f"{path!r} on {self._protocol!r} cannot be used now ({type(error).__name__}: {error}): {advice}"
            ) from error


def _knows_create_mode(filesystem: AbstractFileSystem) -> bool:
    """Return whether the filesystem implements exclusive creation; the generic one of fsspec checks first and writes afterwards."""
    kind = type(filesystem)
    write = getattr(kind, "_pipe_file", None) or kind.pipe_file
    return write is not AbstractFileSystem.pipe_file and "mode" in inspect.signature(write).parameters


def _refusal(directory: str, reason: str) -> JobDirectoryError:
    return JobDirectoryError(
        f"job directory {directory} cannot create a file only if it is absent: {reason}. "
        "Use a (shared) local directory, or an object store with conditional writes."
    )


def create_locally(
    path: Path, data: bytes, *, folders: int | None = None, link: Callable[[Path, Path], None] = os.link
) -> None:
    """Create a file atomically, with its whole content, and sync it to disk.

    A file system without hard links is refused. On such a file system a file can only be created empty and written afterwards. Another
    loop that reads the half-written document would skip its number, and both loops would own the newest document. Most FUSE mounts of
    object stores (s3fs, gcsfuse, mountpoint-s3, rclone) even let two machines create the same file.

    Raises:
        FileExistsError: the name is used.
        FileNotFoundError: a parent folder is missing that the call must not create (`folders`).
        JobDirectoryError: the file system cannot create a file only if it is absent.
    """
    if folders is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        for folder in reversed(path.parents[:folders]):
            folder.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_exclusively(temporary, data)
        _link(temporary, path, link)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _link(source: Path, target: Path, link: Callable[[Path, Path], None]) -> None:
    try:
        link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise _refusal(repr(str(target.parent)), "its file system has no hard links") from error


def _write_exclusively(path: Path, data: bytes) -> None:
    """Write a new file completely or not at all: a full disk must not leave an incomplete file."""
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _sync(directory: Path) -> None:
    """Sync the directory, so that a new name survives a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
