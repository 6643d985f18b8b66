"""Files under one root of any fsspec filesystem, with the primitive that a job's log is built on: create if absent.

Locally a complete temporary file is linked to its name; object stores are asked for a conditional PUT. Both make the
creation a compare-and-swap: of several that create the same name, exactly one succeeds. Nothing is ever renamed.
"""

from __future__ import annotations

import errno
import inspect
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive.ports import JobDirectoryError

SPARK_SCHEMES = {"file": "file", "s3": "s3a", "gs": "gs"}
"""Protocol as fsspec names it first -> scheme under which Spark reads the same file."""

PROBE = ".create-if-absent"

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without hard links answer."""

ADVICE = {
    errno.ENOSPC: "free some space on it",
    errno.EDQUOT: "free some space on it, or raise the quota",
    errno.EROFS: "mount it writable",
}
"""What to do about an error of the operating system."""

GENERAL_ADVICE = "see that the storage answers and that its address and credentials are right"


class Storage:
    """Blocking access to the files under a root; call it in a thread. Every failure is a `JobDirectoryError`."""

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Make a storage.

        Args:
            filesystem: what holds the files, credentials included.
            root: path on it, as `fs` and `path` of a `UPath` or of Airflow's `ObjectStoragePath` go together.
        """
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._local = isinstance(filesystem, LocalFileSystem)
        self._proven = self._local

    @classmethod
    def at(cls, url: str) -> Storage:
        """A storage at an fsspec URL or a local path, with the credentials that its library finds by itself."""
        filesystem, root = url_to_fs(url)
        return cls(filesystem, root)

    def below(self, folder: str) -> Storage:
        """A storage at a folder of this one."""
        return Storage(self._filesystem, self._path(folder))

    def uri(self, path: str = "") -> str:
        """The URI under which Spark finds a file of this storage.

        Raises:
            JobDirectoryError: Spark is not known to read such a filesystem.
        """
        protocol = self._protocol
        if protocol not in SPARK_SCHEMES:
            known = ", ".join(SPARK_SCHEMES)
            raise JobDirectoryError(
                f"job directory {self._root!r}: {protocol!r} is not one of {known}, which Spark reads too"
            )
        return f"{SPARK_SCHEMES[protocol]}://{self._path(path)}"

    def names(self, folder: str) -> list[str]:
        """Names of a folder's files; none if there is no such folder."""
        path = self._path(folder)
        with self._explained(path):
            self._filesystem.invalidate_cache(path)
            try:
                return [found.rsplit("/", 1)[-1] for found in self._filesystem.ls(path, detail=False)]
            except FileNotFoundError:
                return []

    def read(self, path: str, limit: int) -> bytes | None:
        """A file's bytes, or the first `limit + 1` of a larger one; None if there is no such file."""
        full = self._path(path)
        with self._explained(full):
            return self._read(full, limit)

    def create(self, path: str, data: bytes, *, folders: int | None = None) -> bool:
        """Create a file with this content only if there is none under its name.

        Args:
            path: of the file.
            data: its content.
            folders: how many missing folders above it are made (object stores have none); all of them if None.

        Returns:
            True if the file now holds `data`: also if it did before, so that a creation whose answer was lost can be
            repeated. False if somebody else's content is there.
        """
        full = self._path(path)
        with self._explained(full):
            self._require_create_if_absent()
            return self._create(full, data, folders=folders)

    def remove(self, path: str) -> None:
        """Remove a file; that it is gone already is no error."""
        full = self._path(path)
        with self._explained(full):
            try:
                self._filesystem.rm_file(full)
            except FileNotFoundError:
                return

    @property
    def _protocol(self) -> str:
        protocol = self._filesystem.protocol
        return protocol if isinstance(protocol, str) else protocol[0]

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _read(self, path: str, limit: int) -> bytes | None:
        self._filesystem.invalidate_cache(path)
        try:
            empty = self._filesystem.size(path) == 0  # object stores refuse any range of an empty object
            return b"" if empty else self._filesystem.cat_file(path, start=0, end=limit + 1)
        except FileNotFoundError:
            return None

    def _create(self, path: str, data: bytes, *, folders: int | None = None) -> bool:
        try:
            if self._local:
                create_locally(Path(path), data, folders=folders)
            else:
                self._filesystem.pipe_file(path, data, mode="create")
        except OSError:
            # Stores name a lost race differently (409, 412), and a repeated request can lose to itself: look.
            found = self._read(path, len(data))
            if found is None:
                raise
            return found == data
        else:
            return True

    def _require_create_if_absent(self) -> None:
        """Refuse a filesystem whose "create" would overwrite: two loops could both believe that they were first."""
        if self._proven:
            return
        probe = self._path(PROBE)
        if not _knows_create_mode(self._filesystem):
            self._refuse("its fsspec filesystem has no atomic creation")
        self._create(probe, b"first")
        if self._create(probe, b"second"):
            self._refuse("its server ignores If-None-Match on PUT")
        self._proven = True

    def _refuse(self, reason: str) -> None:
        raise JobDirectoryError(
            f"job directory {self._root!r} on {self._protocol!r} can't create a file only if it is absent: {reason}. "
            "Use a (shared) local directory, or an object store with conditional writes."
        )

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Filesystems raise what they like (botocore, aiohttp, OSError): tell all of it as one error with a fix."""
        try:
            yield
        except JobDirectoryError:
            raise
        except PermissionError as error:
            raise JobDirectoryError(
                f"no permission for {path!r} on {self._protocol!r}: let the user or the connection that Airflow uses "
                f"read, write and remove files there ({error})"
            ) from error
        except FileNotFoundError as error:
            raise JobDirectoryError(
                f"{path!r} on {self._protocol!r} has no place to be: create the bucket or directory (or mount it), or name "
                f"another ({error})"
            ) from error
        except Exception as error:
            advice = ADVICE.get(getattr(error, "errno", None) or 0, GENERAL_ADVICE)
            raise JobDirectoryError(
                f"{path!r} on {self._protocol!r} can't be used now ({type(error).__name__}: {error}): {advice}"
            ) from error


def _knows_create_mode(filesystem: AbstractFileSystem) -> bool:
    """Whether the filesystem brings its own exclusive creation: fsspec's generic one looks first and writes then."""
    kind = type(filesystem)
    write = getattr(kind, "_pipe_file", None) or kind.pipe_file
    return write is not AbstractFileSystem.pipe_file and "mode" in inspect.signature(write).parameters


def create_locally(
    path: Path, data: bytes, *, folders: int | None = None, link: Callable[[Path, Path], None] = os.link
) -> None:
    """Create a file in one step, with all its content and safe on disk.

    Where the file system has no hard links, the file is created exclusively and then written: still only one creator
    succeeds, but a crash in between leaves it half-written.

    Raises:
        FileExistsError: there is a file under that name.
        FileNotFoundError: a folder is missing that must not be made (`folders`).
    """
    if folders is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        for folder in reversed(path.parents[:folders]):
            folder.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_exclusively(temporary, data)
        link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _write_exclusively(path, data)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _write_exclusively(path: Path, data: bytes) -> None:
    """Write a new file, all of it or nothing: on a full disk it must not take the last bytes and a name."""
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _sync(directory: Path) -> None:
    """Make a new name in the directory survive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
