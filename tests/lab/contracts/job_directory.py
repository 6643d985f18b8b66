"""The contract of `JobDirectory`. To test an implementation, subclass `JobDirectoryContract` and define the fixture `folder`.

The documents are small but complete. The behavior of one implementation has its own tests.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import pytest

from airflow_adaptive._core.ports import JobDirectory, JobDirectoryError
from airflow_adaptive._core.protocol.documents import (
    MAX_DOCUMENT_BYTES,
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    JournalDocument,
    QueryReport,
    RescaleDocument,
    encode_document,
)
from airflow_adaptive._engine.journal.job_directory import append

JOB = "flights"
CREATORS = 20


class Directory(Protocol):
    """The directory of the job `JOB`."""

    def directory(self) -> JobDirectory:
        """Return a new client of the directory, like the client of another process."""
        ...

    def plant_journal(self, number: int, data: bytes) -> None:
        """Write bytes to the file of a journal document, to simulate a fault or a foreign file."""
        ...

    def plant_rescale(self, number: int, data: bytes) -> None:
        """Write bytes to the file of a rescale document."""
        ...

    def plant_status(self, data: bytes) -> None:
        """Write bytes to the file of the driver status."""
        ...


def journal_document(number: int, *, owner: str = "loop-1", job: str = JOB, version: int = 1) -> JournalDocument:
    """Return a journal document."""
    plan = DriverPlan(parallelism={"read": 2}, executors=2, state_partitions={"default": 4})
    return JournalDocument(
        job=job,
        number=number,
        at="2013-01-01T05:15:00+00:00",
        owner=owner,
        directive=Directive(epoch=1, nonce="n", version=version, action=Action.RUN, plan=plan),
        scheduler={"state": "Executing"},
        decisions=[{"reason": "all slots are there"}],
    )


def rescale_document(number: int, *, cause: str = "INITIAL_SCHEDULE", job: str = JOB) -> RescaleDocument:
    """Return the document of a rescale that has ended."""
    return RescaleDocument(job=job, number=number, rescale={"number": number, "trigger_cause": cause})


def status_document(sequence: int = 1, *, job: str = JOB) -> DriverStatus:
    """Return a driver status."""
    return DriverStatus(
        job=job,
        epoch=1,
        nonce="n",
        sequence=sequence,
        at="2013-01-01T05:15:00+00:00",
        state=DriverState.RUNNING,
        version=1,
        parallelism={"read": 2},
        queries=(QueryReport(name="departures", active=True, batch_id=3),),
    )


def of_newer_format(data: bytes) -> bytes:
    """Return the same document in the format of a newer version of airflow-adaptive."""
    fields: dict[str, Any] = json.loads(data)
    return json.dumps({**fields, "format": fields["format"] + 1}).encode()


INVALID = {
    "empty": b"",
    "half-written": encode_document(journal_document(3))[:-10],
    "foreign": b'{"hello": "world"}',
    "no object": b"[]",
    "not text": b"\xff\xfe\x00",
    "oversized": b" " * (MAX_DOCUMENT_BYTES + 1),
    "another number": encode_document(journal_document(7)),
}


@pytest.mark.asyncio
class JobDirectoryContract:
    """The tests of the contract."""

    async def test_newest_is_none_when_the_journal_is_empty(self, folder: Directory) -> None:
        """A new job has no journal documents."""
        directory = folder.directory()
        assert await directory.newest() is None
        assert await directory.read(1) is None
        assert await directory.history(5) == []
        await directory.compact(1)

    async def test_newest_is_what_was_created_last(self, folder: Directory) -> None:
        """Every client reads the complete document."""
        for number in (1, 2, 3):
            assert await folder.directory().create(journal_document(number, version=number))
        assert await folder.directory().newest() == journal_document(3, version=3)
        assert await folder.directory().read(2) == journal_document(2, version=2)

    async def test_create_is_refused_when_another_was_first(self, folder: Directory) -> None:
        """The first document does not change."""
        assert await folder.directory().create(journal_document(1, owner="first"))
        assert not await folder.directory().create(journal_document(1, owner="second"))
        assert await folder.directory().newest() == journal_document(1, owner="first")

    async def test_create_succeeds_again_when_its_answer_was_lost(self, folder: Directory) -> None:
        """A retry with the same document succeeds."""
        assert await folder.directory().create(journal_document(1))
        assert await folder.directory().create(journal_document(1))

    async def test_exactly_one_wins_when_many_create_at_once(self, folder: Directory) -> None:
        """The creation of a document is atomic."""
        owners = [f"loop-{index}" for index in range(CREATORS)]
        directories = [folder.directory() for _ in owners]
        pairs = zip(directories, owners, strict=True)
        won = await asyncio.gather(*(directory.create(journal_document(1, owner=owner)) for directory, owner in pairs))
        newest = await folder.directory().newest()
        assert newest is not None
        assert [owner for owner, first in zip(owners, won, strict=True) if first] == [newest.owner]

    async def test_create_is_refused_when_newer_documents_were_compacted_over_it(self, folder: Directory) -> None:
        """A delayed loop finds no document with its number, but its document must not become the newest document."""
        for number in (1, 2, 3, 4):
            assert await folder.directory().create(journal_document(number))
        await folder.directory().compact(1)
        assert not await folder.directory().create(journal_document(2, owner="sleeper"))
        _, is_created = await append(folder.directory(), journal_document(2, owner="late sleeper"))
        assert not is_created
        assert await folder.directory().newest() == journal_document(4)

    @pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
    async def test_newest_skips_invalid_documents(self, folder: Directory, data: bytes) -> None:
        """The client returns the newest valid document."""
        assert await folder.directory().create(journal_document(1))
        assert await folder.directory().create(journal_document(2))
        folder.plant_journal(3, data)
        assert await folder.directory().newest() == journal_document(2)
        assert await folder.directory().read(3) is None
        assert await folder.directory().history(2) == [journal_document(1), journal_document(2)]

    async def test_append_skips_the_number_of_an_invalid_document(self, folder: Directory) -> None:
        """A damaged document must not stop a job."""
        assert await folder.directory().create(journal_document(1))
        folder.plant_journal(2, b"")
        folder.plant_journal(3, b"{")
        assert await append(folder.directory(), journal_document(2)) == (journal_document(4), True)
        assert await folder.directory().newest() == journal_document(4)

    async def test_append_returns_the_document_of_another_loop_that_was_first(self, folder: Directory) -> None:
        """The loop must continue after this document, or end."""
        first = journal_document(1, owner="first")
        assert await append(folder.directory(), first) == (first, True)
        assert await append(folder.directory(), journal_document(1, owner="second")) == (first, False)

    async def test_newest_raises_when_a_newer_version_wrote_it(self, folder: Directory) -> None:
        """A loop that continues from an older document would revert the steps of the newer version."""
        assert await folder.directory().create(journal_document(1))
        folder.plant_journal(2, of_newer_format(encode_document(journal_document(2))))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await folder.directory().newest()

    async def test_newest_raises_when_the_journal_is_of_another_job(self, folder: Directory) -> None:
        """Two jobs in one directory would overwrite the documents of each other."""
        folder.plant_journal(1, encode_document(journal_document(1, job="trains")))
        with pytest.raises(JobDirectoryError, match="'trains'"):
            await folder.directory().newest()

    async def test_history_is_bounded_and_oldest_first(self, folder: Directory) -> None:
        """The history contains the newest documents, up to the limit."""
        for number in (1, 2, 3, 4):
            assert await folder.directory().create(journal_document(number))
        assert await folder.directory().history(2) == [journal_document(3), journal_document(4)]
        assert len(await folder.directory().history(9)) == 4
        assert await folder.directory().history(0) == []

    async def test_compact_keeps_the_newest(self, folder: Directory) -> None:
        """Invalid documents do not count as the newest documents."""
        for number in (1, 2, 3, 4):
            assert await folder.directory().create(journal_document(number))
        folder.plant_journal(5, b"")
        await folder.directory().compact(2)
        assert await folder.directory().history(9) == [journal_document(3), journal_document(4)]
        await folder.directory().compact(2)
        assert await folder.directory().newest() == journal_document(4)

    async def test_compact_refuses_to_remove_all(self, folder: Directory) -> None:
        """The newest document contains the state of the job."""
        with pytest.raises(ValueError, match="keep=0"):
            await folder.directory().compact(0)

    async def test_rescales_are_bounded_and_oldest_first(self, folder: Directory) -> None:
        """The list contains the newest rescales, up to the limit. The list of a new job is empty."""
        assert await folder.directory().rescales(5) == []
        for number in (1, 2, 3):
            assert await folder.directory().record(rescale_document(number))
        assert await folder.directory().rescales(2) == [rescale_document(2), rescale_document(3)]
        assert len(await folder.directory().rescales(9)) == 3
        assert await folder.directory().rescales(0) == []

    async def test_rescale_is_kept_once(self, folder: Directory) -> None:
        """A retry with the same document succeeds. The client refuses a different document with the same number."""
        assert await folder.directory().record(rescale_document(1))
        assert await folder.directory().record(rescale_document(1))
        assert not await folder.directory().record(rescale_document(1, cause="UPDATE_REQUIREMENT"))
        assert await folder.directory().rescales(9) == [rescale_document(1)]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b'{"hello": "world"}',
            encode_document(rescale_document(2))[:-3],
            encode_document(rescale_document(7)),
            encode_document(rescale_document(2, job="trains")),
        ],
        ids=["empty", "foreign", "half-written", "another number", "another job"],
    )
    async def test_rescales_skip_invalid_documents(self, folder: Directory, data: bytes) -> None:
        """The list contains all valid documents."""
        for number in (1, 3):
            assert await folder.directory().record(rescale_document(number))
        folder.plant_rescale(2, data)
        assert await folder.directory().rescales(9) == [rescale_document(1), rescale_document(3)]

    async def test_rescales_raise_when_a_newer_version_wrote_them(self, folder: Directory) -> None:
        """The client cannot read documents of a newer version."""
        folder.plant_rescale(1, of_newer_format(encode_document(rescale_document(1))))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await folder.directory().rescales(9)

    async def test_compact_keeps_rescales_independently_of_journal_documents(self, folder: Directory) -> None:
        """The limit applies to each kind of document separately."""
        for number in (1, 2):
            assert await folder.directory().record(rescale_document(number))
        for number in range(1, 9):
            assert await folder.directory().create(journal_document(number))
        await folder.directory().compact(2)
        assert await folder.directory().rescales(9) == [rescale_document(1), rescale_document(2)]
        await folder.directory().compact(1)
        assert await folder.directory().rescales(9) == [rescale_document(2)]

    async def test_missing_file_is_none(self, folder: Directory) -> None:
        """A file that does not exist is not an error."""
        assert await folder.directory().file("file:///no/such/folder/run.py", 10) is None

    async def test_status_is_the_newest_status(self, folder: Directory) -> None:
        """The status of a new job is None. Each status replaces the previous status, even if a client has already read it."""
        directory = folder.directory()
        assert await directory.status() is None
        for sequence in (1, 2):
            folder.plant_status(encode_document(status_document(sequence)))
            assert await directory.status() == status_document(sequence)

    @pytest.mark.parametrize(
        "data", [b"", encode_document(status_document())[:-5], encode_document(status_document(job="trains"))]
    )
    async def test_status_is_none_when_it_is_invalid(self, folder: Directory, data: bytes) -> None:
        """A client ignores an incomplete status and the status of another job."""
        folder.plant_status(data)
        assert await folder.directory().status() is None

    async def test_status_raises_when_a_newer_version_wrote_it(self, folder: Directory) -> None:
        """Without the error, the loop would treat the driver as failed."""
        folder.plant_status(of_newer_format(encode_document(status_document())))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await folder.directory().status()
