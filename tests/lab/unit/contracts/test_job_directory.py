"""The contract of `JobDirectory`, with local files, with an S3-compatible server, and with the fake directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem
from s3fs import S3FileSystem

from airflow_adaptive._core.ports import JobDirectory
from airflow_adaptive._core.protocol.documents import journal_name
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from tests.lab.contracts.job_directory import JOB, JobDirectoryContract
from tests.lab.fakes.job_directory import FakeJobDirectory


class StoredDirectory:
    """A job directory on a filesystem."""

    def __init__(self, filesystem: AbstractFileSystem, base: str) -> None:
        self._filesystem = filesystem
        self._base = base

    def directory(self) -> JobDirectory:
        return FsspecJobDirectory(Storage(self._filesystem, self._base), JOB)

    def plant_journal(self, number: int, data: bytes) -> None:
        self._plant(f"journal/{journal_name(number)}", data)

    def plant_rescale(self, number: int, data: bytes) -> None:
        self._plant(f"history/{journal_name(number)}", data)

    def plant_status(self, data: bytes) -> None:
        self._plant("status.json", data)

    def _plant(self, path: str, data: bytes) -> None:
        full = f"{self._base}/{JOB}/{path}"
        self._filesystem.makedirs(full.rsplit("/", 1)[0], exist_ok=True)
        self._filesystem.pipe_file(full, data)


class FakeDirectory:
    """A job directory in memory."""

    def __init__(self) -> None:
        self._directory = FakeJobDirectory(JOB)

    def directory(self) -> JobDirectory:
        return self._directory

    def plant_journal(self, number: int, data: bytes) -> None:
        self._directory.journal[number] = data

    def plant_rescale(self, number: int, data: bytes) -> None:
        self._directory.kept[number] = data

    def plant_status(self, data: bytes) -> None:
        self._directory.reported = data


class TestLocalFiles(JobDirectoryContract):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> StoredDirectory:
        (tmp_path / "jobs" / JOB).mkdir(parents=True)
        return StoredDirectory(LocalFileSystem(), str(tmp_path / "jobs"))


class TestS3(JobDirectoryContract):
    @pytest.fixture
    def folder(self, s3: S3FileSystem, bucket: str) -> StoredDirectory:
        return StoredDirectory(s3, f"{bucket}/jobs")


class TestFake(JobDirectoryContract):
    @pytest.fixture
    def folder(self) -> FakeDirectory:
        return FakeDirectory()
