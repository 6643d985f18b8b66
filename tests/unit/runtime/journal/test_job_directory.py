"""The job directory: what the contract of `JobChannel` does not see."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from airflow_adaptive.job.protocol.codec import MAX_DOCUMENT_BYTES, encode_status, journal_name
from airflow_adaptive.ports import JobDirectoryError
from airflow_adaptive.runtime.journal.job_directory import JobDirectory
from airflow_adaptive.runtime.journal.storage import Storage
from airflow_adaptive.testing.contracts.job_channel import JOB, journal_document, status_document

pytestmark = pytest.mark.asyncio


class HangingFileSystem(LocalFileSystem):
    """A disk that does not answer until it is released, like a network file system without its server."""

    def __init__(self) -> None:
        super().__init__(skip_instance_cache=True)
        self.released = threading.Event()

    def ls(self, path, detail=False, **kwargs):
        self.released.wait()
        return []


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    (tmp_path / JOB).mkdir()
    return JobDirectory(Storage.at(str(tmp_path)), JOB)


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "../a", ".hidden", "a b", "x" * 129, "flug\u00fc"])
async def test_job_id_is_refused_when_it_is_no_folder_name(tmp_path: Path, job: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        JobDirectory(Storage.at(str(tmp_path)), job)


async def test_documents_are_where_the_driver_reads_them(directory: JobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(42))
    assert [path.name for path in (tmp_path / JOB / "journal").iterdir()] == [journal_name(42)] == ["0000000042.json"]
    assert directory.uri == f"file://{tmp_path}/{JOB}"
    assert directory.checkpoints_uri == f"file://{tmp_path}/{JOB}/checkpoints"


async def test_untrusted_document_is_reported_once(
    directory: JobDirectory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await directory.create(journal_document(1))
    (tmp_path / JOB / "journal" / journal_name(2)).write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        assert await directory.newest() == journal_document(1)
        assert await directory.newest() == journal_document(1)
    assert [record.getMessage() for record in caplog.records] == [
        f"Job {JOB}: ignoring journal/{journal_name(2)} in its job directory: not JSON, or half-written: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    ]


async def test_foreign_files_in_the_journal_are_left_alone(directory: JobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    await directory.create(journal_document(2))
    foreign = tmp_path / JOB / "journal" / ".0000000003.json.crc"
    foreign.write_bytes(b"")
    await directory.compact(1)
    assert await directory.newest() == journal_document(2)
    assert foreign.exists()


async def test_directory_that_no_one_made_is_not_taken_for_a_new_job(directory: JobDirectory, tmp_path: Path) -> None:
    (tmp_path / JOB).rmdir()
    with pytest.raises(JobDirectoryError, match=r"create the bucket or directory \(or mount it\)"):
        await directory.create(journal_document(1))
    assert not (tmp_path / JOB).exists()


async def test_journal_that_is_gone_is_not_begun_again(directory: JobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    job, away = tmp_path / JOB, tmp_path / "away"
    job.rename(away)
    with pytest.raises(JobDirectoryError, match=rf"file://{job}/journal was there and is gone: bring .* back"):
        await directory.create(journal_document(2))
    assert not job.exists()
    away.rename(job)
    assert await directory.create(journal_document(2))


async def test_status_that_is_gone_with_the_journal_is_an_error(directory: JobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    assert await directory.status() is None
    status = tmp_path / JOB / "status.json"
    status.write_bytes(encode_status(status_document()))
    assert await directory.status() is not None
    status.unlink()
    assert await directory.status() is None  # it is being replaced
    (tmp_path / JOB).rename(tmp_path / "away")
    with pytest.raises(JobDirectoryError, match="was there and is gone"):
        await directory.status()


async def test_create_is_refused_when_the_document_is_too_large_to_be_read_again(directory: JobDirectory) -> None:
    with pytest.raises(ValueError, match="journal document 1 has"):
        await directory.create(journal_document(1, owner="x" * MAX_DOCUMENT_BYTES))


async def test_operation_is_given_up_when_the_storage_does_not_answer() -> None:
    disk = HangingFileSystem()
    try:
        with pytest.raises(JobDirectoryError, match=r"storage of the job directory did not answer within 0.05 s"):
            await JobDirectory(Storage(disk, "/jobs"), JOB, timeout_s=0.05).newest()
    finally:
        disk.released.set()


async def test_event_loop_goes_on_while_the_storage_does_not_answer() -> None:
    disk = HangingFileSystem()
    reading = asyncio.create_task(JobDirectory(Storage(disk, "/jobs"), JOB).newest())
    await asyncio.sleep(0)
    assert not reading.done()
    disk.released.set()
    assert await reading is None
