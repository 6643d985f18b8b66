"""What every `JobChannel` must do. Subclass `JobChannelContract`, and give it a fixture `directory`.

The documents are small but real; tests of what only one kind of channel does live beside that kind.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import pytest

from airflow_adaptive.job.protocol.codec import MAX_DOCUMENT_BYTES, encode_journal, encode_rescale, encode_status
from airflow_adaptive.job.protocol.documents import (
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    JournalDocument,
    QueryReport,
    RescaleDocument,
)
from airflow_adaptive.ports import JobChannel, JobDirectoryError
from airflow_adaptive.runtime.journal.job_directory import append

JOB = "flights"
CREATORS = 20


class Directory(Protocol):
    """One job directory, as the contract needs it."""

    def channel(self) -> JobChannel:
        """A new channel to job `JOB`, as another process would have it."""
        ...

    def plant_journal(self, number: int, data: bytes) -> None:
        """Put bytes under a journal document's name, as a fault or a stranger would."""
        ...

    def plant_rescale(self, number: int, data: bytes) -> None:
        """Put bytes under a rescale document's name."""
        ...

    def plant_status(self, data: bytes) -> None:
        """Put bytes in the place of the driver's status."""
        ...


def journal_document(number: int, *, owner: str = "loop-1", job: str = JOB, version: int = 1) -> JournalDocument:
    """A journal document."""
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
    """A rescale that has ended."""
    return RescaleDocument(job=job, number=number, rescale={"number": number, "trigger_cause": cause})


def status_document(sequence: int = 1, *, job: str = JOB) -> DriverStatus:
    """A driver's status."""
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
    """The same document, written by a version that is yet to come."""
    fields: dict[str, Any] = json.loads(data)
    return json.dumps({**fields, "format": fields["format"] + 1}).encode()


UNTRUSTED = {
    "empty": b"",
    "half-written": encode_journal(journal_document(3))[:-10],
    "foreign": b'{"hello": "world"}',
    "no object": b"[]",
    "not text": b"\xff\xfe\x00",
    "oversized": b" " * (MAX_DOCUMENT_BYTES + 1),
    "another number": encode_journal(journal_document(7)),
}


@pytest.mark.asyncio
class JobChannelContract:
    """The contract."""

    async def test_newest_is_none_when_the_log_is_empty(self, directory: Directory) -> None:
        """A new job has no directory yet."""
        channel = directory.channel()
        assert await channel.newest() is None
        assert await channel.read(1) is None
        assert await channel.history(5) == []
        await channel.compact(1)

    async def test_newest_is_what_was_created_last(self, directory: Directory) -> None:
        """Across channels, and whole."""
        for number in (1, 2, 3):
            assert await directory.channel().create(journal_document(number, version=number))
        assert await directory.channel().newest() == journal_document(3, version=3)
        assert await directory.channel().read(2) == journal_document(2, version=2)

    async def test_create_is_refused_when_another_was_first(self, directory: Directory) -> None:
        """And the first document stays."""
        assert await directory.channel().create(journal_document(1, owner="first"))
        assert not await directory.channel().create(journal_document(1, owner="second"))
        assert await directory.channel().newest() == journal_document(1, owner="first")

    async def test_create_succeeds_again_when_its_answer_was_lost(self, directory: Directory) -> None:
        """The very same document."""
        assert await directory.channel().create(journal_document(1))
        assert await directory.channel().create(journal_document(1))

    async def test_exactly_one_wins_when_many_create_at_once(self, directory: Directory) -> None:
        """Compare-and-swap."""
        owners = [f"loop-{index}" for index in range(CREATORS)]
        channels = [directory.channel() for _ in owners]
        pairs = zip(channels, owners, strict=True)
        won = await asyncio.gather(*(channel.create(journal_document(1, owner=owner)) for channel, owner in pairs))
        newest = await directory.channel().newest()
        assert newest is not None
        assert [owner for owner, first in zip(owners, won, strict=True) if first] == [newest.owner]

    async def test_create_is_refused_when_newer_documents_were_compacted_over_it(self, directory: Directory) -> None:
        """A loop that slept long finds its number free again, and must not believe that it is the newest."""
        for number in (1, 2, 3, 4):
            assert await directory.channel().create(journal_document(number))
        await directory.channel().compact(1)
        assert not await directory.channel().create(journal_document(2, owner="sleeper"))
        assert await append(directory.channel(), journal_document(2, owner="late sleeper")) is None
        assert await directory.channel().newest() == journal_document(4)

    @pytest.mark.parametrize("data", UNTRUSTED.values(), ids=UNTRUSTED)
    async def test_newest_passes_over_what_cannot_be_trusted(self, directory: Directory, data: bytes) -> None:
        """To the newest that can."""
        assert await directory.channel().create(journal_document(1))
        assert await directory.channel().create(journal_document(2))
        directory.plant_journal(3, data)
        assert await directory.channel().newest() == journal_document(2)
        assert await directory.channel().read(3) is None
        assert await directory.channel().history(2) == [journal_document(1), journal_document(2)]

    async def test_append_passes_over_a_number_that_cannot_be_trusted(self, directory: Directory) -> None:
        """So that no damaged document stops a job."""
        assert await directory.channel().create(journal_document(1))
        directory.plant_journal(2, b"")
        directory.plant_journal(3, b"{")
        assert await append(directory.channel(), journal_document(2)) == journal_document(4)
        assert await directory.channel().newest() == journal_document(4)

    async def test_append_yields_when_another_loop_was_first(self, directory: Directory) -> None:
        """None says: read the log again."""
        assert await append(directory.channel(), journal_document(1, owner="first")) == journal_document(
            1, owner="first"
        )
        assert await append(directory.channel(), journal_document(1, owner="second")) is None

    async def test_newest_raises_when_a_newer_version_wrote_it(self, directory: Directory) -> None:
        """Going on from an older document would undo what the newer version did."""
        assert await directory.channel().create(journal_document(1))
        directory.plant_journal(2, of_newer_format(encode_journal(journal_document(2))))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await directory.channel().newest()

    async def test_newest_raises_when_the_log_is_of_another_job(self, directory: Directory) -> None:
        """Two jobs in one directory would destroy each other."""
        directory.plant_journal(1, encode_journal(journal_document(1, job="trains")))
        with pytest.raises(JobDirectoryError, match="'trains'"):
            await directory.channel().newest()

    async def test_history_is_bounded_and_oldest_first(self, directory: Directory) -> None:
        """The newest few."""
        for number in (1, 2, 3, 4):
            assert await directory.channel().create(journal_document(number))
        assert await directory.channel().history(2) == [journal_document(3), journal_document(4)]
        assert len(await directory.channel().history(9)) == 4  # noqa: PLR2004
        assert await directory.channel().history(0) == []

    async def test_compact_keeps_the_newest(self, directory: Directory) -> None:
        """Also when nothing above them can be trusted."""
        for number in (1, 2, 3, 4):
            assert await directory.channel().create(journal_document(number))
        directory.plant_journal(5, b"")
        await directory.channel().compact(2)
        assert await directory.channel().history(9) == [journal_document(3), journal_document(4)]
        await directory.channel().compact(2)
        assert await directory.channel().newest() == journal_document(4)

    async def test_compact_refuses_to_remove_all(self, directory: Directory) -> None:
        """The newest document is the job's state."""
        with pytest.raises(ValueError, match="keep=0"):
            await directory.channel().compact(0)

    async def test_rescales_are_bounded_and_oldest_first(self, directory: Directory) -> None:
        """The newest few; none before the first."""
        assert await directory.channel().rescales(5) == []
        for number in (1, 2, 3):
            assert await directory.channel().record(rescale_document(number))
        assert await directory.channel().rescales(2) == [rescale_document(2), rescale_document(3)]
        assert len(await directory.channel().rescales(9)) == 3  # noqa: PLR2004
        assert await directory.channel().rescales(0) == []

    async def test_rescale_is_kept_once(self, directory: Directory) -> None:
        """The very same again is no error; another one is not taken, and the first stays."""
        assert await directory.channel().record(rescale_document(1))
        assert await directory.channel().record(rescale_document(1))
        assert not await directory.channel().record(rescale_document(1, cause="UPDATE_REQUIREMENT"))
        assert await directory.channel().rescales(9) == [rescale_document(1)]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b'{"hello": "world"}',
            encode_rescale(rescale_document(2))[:-3],
            encode_rescale(rescale_document(7)),
            encode_rescale(rescale_document(2, job="trains")),
        ],
        ids=["empty", "foreign", "half-written", "another number", "another job"],
    )
    async def test_rescales_pass_over_what_cannot_be_trusted(self, directory: Directory, data: bytes) -> None:
        """And tell the others."""
        for number in (1, 3):
            assert await directory.channel().record(rescale_document(number))
        directory.plant_rescale(2, data)
        assert await directory.channel().rescales(9) == [rescale_document(1), rescale_document(3)]

    async def test_rescales_raise_when_a_newer_version_wrote_them(self, directory: Directory) -> None:
        """They are somebody's, and can't be read here."""
        directory.plant_rescale(1, of_newer_format(encode_rescale(rescale_document(1))))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await directory.channel().rescales(9)

    async def test_rescales_outlive_the_log_documents_that_told_them(self, directory: Directory) -> None:
        """Of each kind the newest stay, however many there are of the other."""
        for number in (1, 2):
            assert await directory.channel().record(rescale_document(number))
        for number in range(1, 9):
            assert await directory.channel().create(journal_document(number))
        await directory.channel().compact(2)
        assert await directory.channel().rescales(9) == [rescale_document(1), rescale_document(2)]
        await directory.channel().compact(1)
        assert await directory.channel().rescales(9) == [rescale_document(2)]

    async def test_status_is_the_newest_report(self, directory: Directory) -> None:
        """None before the first; each report replaces the one before, also for a channel that has read it."""
        channel = directory.channel()
        assert await channel.status() is None
        for sequence in (1, 2):
            directory.plant_status(encode_status(status_document(sequence)))
            assert await channel.status() == status_document(sequence)

    @pytest.mark.parametrize(
        "data", [b"", encode_status(status_document())[:-5], encode_status(status_document(job="trains"))]
    )
    async def test_status_is_none_when_it_cannot_be_trusted(self, directory: Directory, data: bytes) -> None:
        """Half-written, or another job's."""
        directory.plant_status(data)
        assert await directory.channel().status() is None

    async def test_status_raises_when_a_newer_version_wrote_it(self, directory: Directory) -> None:
        """Silence would pass for a dead driver."""
        directory.plant_status(of_newer_format(encode_status(status_document())))
        with pytest.raises(JobDirectoryError, match="upgrade airflow-adaptive"):
            await directory.channel().status()
