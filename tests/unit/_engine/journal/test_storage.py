"""Storages: what the contract of `JobDirectory` does not see."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._engine.journal import storage
from airflow_adaptive._engine.journal.storage import Storage, create_locally

if TYPE_CHECKING:
    from s3fs import S3FileSystem

CREATORS = 20


def no_links(source: Path, target: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM), source, None, target)


class PlainFileSystem(AbstractFileSystem):
    """A filesystem with fsspec's own creation, as most have it: FTP, SFTP, HDFS."""

    protocol = "plain"


class OverwritingFileSystem(MemoryFileSystem):
    """An object store whose server ignores the condition of a conditional PUT."""

    protocol = "careless"

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        super().pipe_file(path, value, mode="overwrite", **kwargs)


class UnreachableFileSystem(MemoryFileSystem):
    """A storage whose library raises errors of its own."""

    protocol = "unreachable"

    def ls(self, path, detail=True, **kwargs):
        raise RuntimeError("connection refused")


class ForbiddenFileSystem(LocalFileSystem):
    """A disk on which nothing may be read (tests may run as root, whom no file mode stops)."""

    def ls(self, path, detail=False, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", path)


def test_created_file_is_whole_readable_by_others_and_alone(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path / "base"))
    assert storage.create("journal/a.json", b"content")
    assert storage.names("journal") == ["a.json"]
    assert storage.read("journal/a.json", 100) == b"content"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "base/journal/a.json").stat().st_mode) == 0o666 & ~umask


def test_read_is_cut_when_the_file_is_larger_than_the_limit(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path))
    (tmp_path / "large").write_bytes(b"x" * 100)
    assert storage.read("large", 10) == b"x" * 11
    assert storage.read("missing", 10) is None


@pytest.fixture(params=["local", "s3"])
def create(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, bytes], bool]:
    """Creation of a file on each kind of storage."""
    if request.param == "s3":
        return Storage(request.getfixturevalue("s3"), request.getfixturevalue("bucket")).create
    return Storage.at(str(tmp_path)).create


def test_exactly_one_creates_when_many_threads_try(create: Callable[[str, bytes], bool]) -> None:
    contents = [str(number).encode() for number in range(CREATORS)]
    with ThreadPoolExecutor(CREATORS) as threads:
        for name in ("a", "b", "c"):
            assert sum(threads.map(create, [name] * CREATORS, contents)) == 1


def test_creation_leaves_nothing_but_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        Storage.at(str(tmp_path)).create("a", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_local_creation_fails_when_linking_fails_for_another_reason(tmp_path: Path) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space"):
        create_locally(tmp_path / "a", b"", link=full)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("link", [os.link, no_links])
def test_local_creation_leaves_nothing_when_the_disk_is_full(
    tmp_path: Path, link: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create_locally(tmp_path / "a", b"content", link=link)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space on it"),
        (errno.EROFS, "mount it writable"),
        (errno.EIO, "check that the storage answers"),
    ],
)
def test_disk_that_can_not_be_written_is_reported_with_what_to_do(
    tmp_path: Path, code: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(JobDirectoryError, match=f"{os.strerror(code)}.*: {advice}"):
        Storage.at(str(tmp_path)).create("a", b"content")


def test_local_creation_makes_no_folder_unless_it_may(tmp_path: Path) -> None:
    with pytest.raises(JobDirectoryError, match="folder/a.* has no parent"):
        Storage.at(str(tmp_path)).create("folder/a", b"", folders=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", storage.NO_LINKS, ids=errno.errorcode.get)
def test_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A creates document 2 and writes half of it; B skips the damaged document and creates document 3; A completes document 2 and
    sees no document 3 yet: both loops would own the newest document. Many CIFS shares, vfat and FUSE mounts of object stores have no hard links.
    """

    def unsupported(source: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code), source, None, target)

    jobs = Storage.at(str(tmp_path))
    assert jobs.create("journal/1", b"document 1")
    monkeypatch.setattr(create_locally, "__kwdefaults__", {"folders": None, "link": unsupported})
    with pytest.raises(JobDirectoryError, match=r"journal.* has no hard links. Use a \(shared\) local directory"):
        jobs.create("journal/2", b"document 2")
    assert jobs.names("journal") == ["1"]


def test_unwritable_folder_is_not_mistaken_for_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def immutable(descriptor: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fsync", immutable)
    with pytest.raises(JobDirectoryError, match="no permission for"):
        Storage.at(str(tmp_path)).create("a", b"content")


def test_remove_forgives_when_the_file_is_gone(tmp_path: Path) -> None:
    storage = Storage.at(str(tmp_path))
    storage.create("a", b"")
    storage.remove("a")
    storage.remove("a")
    assert storage.names("") == []


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_folder_is_moved_with_its_files(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if kind == "s3":
        storage = Storage(request.getfixturevalue("s3"), request.getfixturevalue("bucket"))
    else:
        storage = Storage.at(str(tmp_path))
    for path in ("checkpoints/q/offsets/0", "checkpoints/q/offsets/1", "journal/1"):
        assert storage.create(path, path.encode())
    storage.move_folder("checkpoints", "checkpoints.old")
    assert (
        {"checkpoints.old", "journal"} <= set(storage.names("")) <= {"checkpoints.old", "journal", ".create-if-absent"}
    )
    assert storage.read("checkpoints.old/q/offsets/1", 99) == b"checkpoints/q/offsets/1"


def test_create_is_refused_when_the_filesystem_checks_before_it_writes() -> None:
    with pytest.raises(JobDirectoryError, match="'plain' cannot create a file only if it is absent"):
        Storage(PlainFileSystem(), "/jobs").create("a", b"")


def test_create_is_refused_when_the_server_overwrites() -> None:
    careless = OverwritingFileSystem(skip_instance_cache=True)
    with pytest.raises(JobDirectoryError, match="ignores If-None-Match"):
        Storage(careless, "/careless").create("a", b"")
    with pytest.raises(JobDirectoryError, match="ignores If-None-Match"):
        Storage(careless, "/careless").create("a", b"")


def test_create_names_the_bucket_when_it_is_missing(s3: S3FileSystem) -> None:
    with pytest.raises(JobDirectoryError, match=r"'no-such-bucket/.* create the bucket"):
        Storage(s3, "no-such-bucket/jobs").create("a", b"")


def test_create_names_the_path_when_a_file_is_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("not a directory")
    with pytest.raises(JobDirectoryError, match="base/a"):
        Storage.at(str(tmp_path / "base")).create("a", b"")


def test_errors_of_the_library_become_one_that_names_the_path() -> None:
    with pytest.raises(JobDirectoryError, match=r"'/jobs/journal' on 'unreachable' .*connection refused"):
        Storage(UnreachableFileSystem(skip_instance_cache=True), "/jobs").names("journal")


def test_missing_permission_is_reported_with_its_fix(tmp_path: Path) -> None:
    files = ForbiddenFileSystem()
    with pytest.raises(JobDirectoryError, match=r"no permission for .*journal.* the user of Airflow must be .* remove"):
        Storage(files, str(tmp_path)).names("journal")
    with pytest.raises(JobDirectoryError, match="connection 'aws_default' must be allowed to read, write and remove"):
        Storage(files, str(tmp_path), "aws_default").below("flights").names("journal")


def test_uri_is_what_spark_reads(s3: S3FileSystem, tmp_path: Path) -> None:
    assert Storage.at(str(tmp_path)).uri("a/b") == f"file://{tmp_path}/a/b"
    assert Storage(s3, "bucket/jobs").below("flights").uri("journal") == "s3a://bucket/jobs/flights/journal"
    assert Storage(s3, "bucket/jobs").uri() == "s3a://bucket/jobs"


def test_uri_is_refused_when_spark_cannot_read_it() -> None:
    with pytest.raises(JobDirectoryError, match="'memory' is not one of file, s3, gs"):
        Storage(MemoryFileSystem(), "/jobs").uri()
