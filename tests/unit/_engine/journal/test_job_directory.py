"""The job directory: what the contract of `JobDirectory` does not see."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from airflow_adaptive._core.ports import ForeignDirectoryError, JobDirectoryError, OwnedJobError
from airflow_adaptive._core.protocol.documents import MAX_DOCUMENT_BYTES, encode_document, journal_name
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory, append
from airflow_adaptive._engine.journal.storage import Storage
from tests.lab.contracts.job_directory import JOB, journal_document, status_document
from tests.support.runtime.slow_storage import LaggingFileSystem

pytestmark = pytest.mark.asyncio


@pytest.fixture
def directory(tmp_path: Path) -> FsspecJobDirectory:
    (tmp_path / JOB).mkdir()
    return FsspecJobDirectory(Storage.at(str(tmp_path)), JOB)


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "../a", ".hidden", "a b", "x" * 129, "flug\u00fc"])
async def test_job_id_is_refused_when_it_is_no_folder_name(tmp_path: Path, job: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        FsspecJobDirectory(Storage.at(str(tmp_path)), job)


async def test_documents_are_where_the_driver_reads_them(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(42))
    assert [path.name for path in (tmp_path / JOB / "journal").iterdir()] == [journal_name(42)] == ["0000000042.json"]
    assert directory.uri == f"file://{tmp_path}/{JOB}"


async def test_directory_belongs_to_the_task_that_claims_it_first(
    directory: FsspecJobDirectory, tmp_path: Path
) -> None:
    for _ in range(2):
        await directory.claim("flights/stream")
    again = FsspecJobDirectory(Storage.at(str(tmp_path)), JOB)
    with pytest.raises(OwnedJobError, match=r"belongs to task 'flights/stream'.*owners/0000000001.json"):
        await again.claim("copies/stream")
    with pytest.raises(OwnedJobError):
        await again.claim("copies/stream", "other/stream")
    await again.claim("copies/stream", "flights/stream")
    with pytest.raises(OwnedJobError, match="copies/stream"):
        await directory.claim("flights/stream")
    await directory.claim("flights/stream", "copies/stream")
    assert sorted(path.name for path in (tmp_path / JOB / "owners").iterdir()) == [journal_name(n) for n in (1, 2, 3)]


async def test_directory_names_the_connections_with_which_its_task_runs_the_job(
    directory: FsspecJobDirectory, tmp_path: Path
) -> None:
    assert await directory.connections() is None
    await directory.claim("flights/stream")
    assert await directory.connections() is None
    for connections in ({"spark": "a"}, {"spark": "b"}, {"spark": "b"}):
        await directory.claim("flights/stream", connections=connections)
        assert await directory.connections() == connections
    assert len([*(tmp_path / JOB / "owners").iterdir()]) == 3


async def test_of_many_tasks_at_the_same_moment_one_claims_the_directory(directory: FsspecJobDirectory) -> None:
    claims = await asyncio.gather(*(directory.claim(f"dag{n}/stream") for n in range(8)), return_exceptions=True)
    assert sorted(type(claim).__name__ for claim in claims) == ["NoneType", *["OwnedJobError"] * 7]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b'{"job": "x"}', b"[" * 4000], ids=repr)
async def test_owner_that_cannot_be_read_is_not_replaced(
    directory: FsspecJobDirectory, tmp_path: Path, content: bytes
) -> None:
    await directory.create_file(f"owners/{journal_name(1)}", content)
    with pytest.raises(ForeignDirectoryError, match="does not name the task"):
        await directory.claim("flights/stream")
    assert [path.read_bytes() for path in (tmp_path / JOB / "owners").iterdir()] == [content]


async def test_directory_of_another_job_is_refused(directory: FsspecJobDirectory) -> None:
    """File systems that ignore the case of names have one directory for two jobs."""
    await directory.create_file(f"owners/{journal_name(1)}", b'{"job": "JOB", "task": "flights/stream"}')
    with pytest.raises(ForeignDirectoryError, match="belongs to job 'JOB'"):
        await directory.claim("flights/stream")


async def test_job_of_a_fleet_has_a_directory_of_its_own(tmp_path: Path) -> None:
    fleets = [FsspecJobDirectory(Storage.at(str(tmp_path)), f"{dag}:stream:{JOB}") for dag in ("orders", "clicks")]
    assert [it.uri for it in fleets] == [f"file://{tmp_path}/{dag}~stream/{JOB}" for dag in ("orders", "clicks")]
    for it in fleets:
        await it.claim("orders/stream")


async def test_files_are_read_by_their_uri_up_to_a_limit(directory: FsspecJobDirectory) -> None:
    await directory.create_file("code/0a/run.py", b"12345")
    uri = f"{directory.uri}/code/0a/run.py"
    assert await directory.file(uri, 5) == b"12345"
    assert await directory.file(uri, 4) is None
    assert await directory.file(f"{directory.uri}/code/0a/missing.py", 5) is None
    assert await directory.file("https://example.com/run.py", 5) is None
    assert await directory.file(f"https://example.com/{uri}", 5) is None


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[" * 100_000, "maximum recursion depth exceeded while decoding a JSON array from a unicode string"),
    ],
)
async def test_untrusted_document_is_reported_once(
    directory: FsspecJobDirectory, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bytes, reason: str
) -> None:
    await directory.create(journal_document(1))
    (tmp_path / JOB / "journal" / journal_name(2)).write_bytes(damaged)
    with caplog.at_level(logging.WARNING):
        assert await directory.newest() == journal_document(1)
        assert await directory.newest() == journal_document(1)
    assert [record.getMessage() for record in caplog.records] == [
        f"Job {JOB}: ignoring journal/{journal_name(2)} in its job directory: not JSON, or half-written: {reason}"
    ]


async def test_foreign_files_in_the_journal_are_left_alone(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    await directory.create(journal_document(2))
    foreign = tmp_path / JOB / "journal" / ".0000000003.json.crc"
    foreign.write_bytes(b"")
    await directory.compact(1)
    assert await directory.newest() == journal_document(2)
    assert foreign.exists()


async def test_directory_that_no_one_made_is_not_taken_for_a_new_job(
    directory: FsspecJobDirectory, tmp_path: Path
) -> None:
    (tmp_path / JOB).rmdir()
    with pytest.raises(JobDirectoryError, match=r"create the bucket or directory \(or mount it\)"):
        await directory.create(journal_document(1))
    assert not (tmp_path / JOB).exists()


async def test_journal_that_is_gone_is_not_begun_again(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    job, away = tmp_path / JOB, tmp_path / "away"
    job.rename(away)
    with pytest.raises(
        JobDirectoryError, match=rf"file://{job}/journal has disappeared: restore the directory of the job"
    ):
        await directory.create(journal_document(2))
    assert not job.exists()
    away.rename(job)
    assert await directory.create(journal_document(2))


async def test_status_that_is_gone_with_the_journal_is_an_error(directory: FsspecJobDirectory, tmp_path: Path) -> None:
    await directory.create(journal_document(1))
    assert await directory.status() is None
    status = tmp_path / JOB / "status.json"
    status.write_bytes(encode_document(status_document()))
    assert await directory.status() is not None
    status.unlink()
    assert await directory.status() is None  # it is being replaced
    (tmp_path / JOB).rename(tmp_path / "away")
    with pytest.raises(JobDirectoryError, match="has disappeared"):
        await directory.status()


async def test_create_is_refused_when_the_document_is_too_large_to_be_read_again(directory: FsspecJobDirectory) -> None:
    with pytest.raises(ValueError, match="journal document 1 has"):
        await directory.create(journal_document(1, owner="x" * MAX_DOCUMENT_BYTES))


# ---- listings that lag ----------------------------------------------------------------------------------------------


@pytest.fixture
def lagging() -> LaggingFileSystem:
    return LaggingFileSystem()


@pytest.fixture
def lagging_directory(lagging: LaggingFileSystem, tmp_path: Path) -> FsspecJobDirectory:
    (tmp_path / JOB).mkdir()
    return FsspecJobDirectory(Storage(lagging, str(tmp_path)), JOB)


async def test_append_reads_a_document_before_it_skips_its_number_as_damaged(
    lagging: LaggingFileSystem, lagging_directory: FsspecJobDirectory
) -> None:
    """Loop A creates document 2; the listing of loop B still ends with document 1; loop B appends document 2."""
    assert await lagging_directory.create(journal_document(1))
    assert await lagging_directory.create(journal_document(2, owner="A"))
    lagging.hidden = {journal_name(2)}
    expected = journal_document(2, owner="A"), False
    assert await append(lagging_directory, journal_document(2, owner="B")) == expected
    assert await lagging_directory.read(3) is None


async def test_append_creates_one_document_when_the_listing_lags(
    lagging: LaggingFileSystem, lagging_directory: FsspecJobDirectory
) -> None:
    """A loop creates document 2; the listing after the creation still ends with document 1."""
    assert await lagging_directory.create(journal_document(1))
    lagging.hidden = {journal_name(2), journal_name(3)}
    assert await append(lagging_directory, journal_document(2)) == (journal_document(2), True)
    assert await lagging_directory.read(3) is None


async def test_created_document_is_compared_with_the_content_that_it_was_given(
    lagging_directory: FsspecJobDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage answers that loop B has created document 1, and returns the document of loop A to the next read."""
    create = lagging_directory.storage.create

    def create_for_another_loop(path: str, data: bytes, *, folders: int | None = None) -> bool:
        create(path, encode_document(journal_document(1, owner="A")), folders=folders)
        return True

    monkeypatch.setattr(lagging_directory.storage, "create", create_for_another_loop)
    assert not await lagging_directory.create(journal_document(1, owner="B"))


async def test_newest_reads_beyond_a_listing_that_lags(
    lagging: LaggingFileSystem, lagging_directory: FsspecJobDirectory
) -> None:
    """A loop that claims the journal after an older document than the newest would never succeed."""
    for number in (1, 2, 3):
        assert await lagging_directory.create(journal_document(number))
    lagging.hidden = {journal_name(2), journal_name(3)}
    assert await lagging_directory.newest() == journal_document(3)
