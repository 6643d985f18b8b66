"""A driver finds the newest valid directive of its journal, whatever a listing shows, and stops when no document appears any more."""

from __future__ import annotations

import math

import pytest

from airflow_adaptive._core.protocol.documents import FORMATS, Action, JournalDocument, encode_document
from airflow_adaptive.job.control.fence import FencedError
from airflow_adaptive.job.control.scheduler_link import LISTING_INTERVAL_S, JournalReader
from tests.support.driver.simulated_driver import directive, plan

FORMAT = FORMATS[-1]


class FakeLogFiles:
    """A log in memory."""

    def __init__(self) -> None:
        self.files: dict[int, bytes] = {}
        self.listings = 0
        self.unlisted: set[int] = set()

    def write(self, number: int, version: int, *, job: str = "j") -> None:
        document = JournalDocument(
            job=job, number=number, at="", owner="o", directive=directive(Action.RUN, version, plan(1)), scheduler={}
        )
        self.files[number] = encode_document(document)

    def journal_numbers(self) -> list[int]:
        self.listings += 1
        return [number for number in self.files if number not in self.unlisted]

    def read_journal(self, number: int) -> bytes | None:
        return self.files.get(number)


class Reading:
    """A reader, its log, its clock and what it reported."""

    def __init__(self, orphan_timeout_s: float = math.inf) -> None:
        self.log = FakeLogFiles()
        self.time = 0.0
        self.reported: list[str] = []
        self._reader = JournalReader(
            self.log, job="j", clock=lambda: self.time, report=self.reported.append, orphan_timeout_s=orphan_timeout_s
        )

    def action(self) -> Action | None:
        newest = self._reader.newest()
        return None if newest is None else newest.action

    def version(self) -> int | None:
        newest = self._reader.newest()
        return None if newest is None else newest.version


def test_newest_is_found_in_a_compacted_journal():
    reading = Reading()
    for number in (7, 8, 9):
        reading.log.write(number, version=number)
    assert reading.version() == 9


def test_next_numbers_are_read_without_a_listing():
    reading = Reading()
    reading.log.write(1, version=1)
    assert reading.version() == 1
    reading.log.write(2, version=2)
    reading.log.write(3, version=3)
    assert reading.version() == 3
    assert reading.log.listings == 1


@pytest.mark.parametrize(
    ("number", "version"),
    [(45, 45), (40, 7)],
    ids=["the next number was compacted", "the job directory was created again"],
)
def test_a_listing_finds_the_newest_document(number: int, version: int):
    reading = Reading()
    reading.log.write(40, version=40)
    assert reading.version() == 40
    reading.log.files.clear()
    reading.log.write(number, version=version)
    assert reading.version() == 40
    reading.time += LISTING_INTERVAL_S
    assert reading.version() == version


def test_a_listing_replaces_the_newest_document_when_the_journal_began_again():
    reading = Reading()
    reading.log.write(40, version=40)
    assert reading.version() == 40
    reading.log.files.clear()
    reading.time += LISTING_INTERVAL_S
    assert reading.version() is None
    reading.log.write(1, version=1)
    assert reading.version() == 1


def test_invalid_documents_are_reported_once_and_ignored():
    reading = Reading()
    reading.log.write(3, version=3)
    assert reading.version() == 3
    reading.log.files[4] = b"[" * 100_000
    reading.log.write(5, version=5, job="another")
    reading.log.write(6, version=6)
    reading.log.files[7] = reading.log.files.pop(6)
    reading.log.files[6] = b""
    for _ in range(3):
        assert reading.version() == 3
        reading.time += LISTING_INTERVAL_S / 2
    assert sorted(message.partition(" ignored")[0] for message in reading.reported) == [
        f"journal document {number}" for number in (4, 5, 6, 7)
    ]


def test_a_half_written_document_is_read_when_it_is_complete():
    reading = Reading()
    reading.log.write(1, version=1)
    assert reading.version() == 1
    reading.log.write(2, version=2)
    complete = reading.log.files[2]
    reading.log.files[2] = complete[:40]
    assert reading.version() == 1
    reading.log.files[2] = complete
    assert reading.version() == 2


def newer_format(data: bytes) -> bytes:
    """The document as a newer version writes it."""
    return data.replace(f'"format":{FORMAT},'.encode(), f'"format":{FORMAT + 1},"directives":[],'.encode())


@pytest.mark.parametrize("number", [2, 5], ids=["the next one", "one of the listing"])
def test_a_document_of_a_newer_format_fences_the_driver(number: int):
    """Airflow is upgraded while the driver runs, and the new loop writes a document that the driver cannot read.

    The driver cannot know whether the document names another driver.
    """
    reading = Reading()
    reading.log.write(1, version=1)
    assert reading.version() == 1
    reading.log.write(number, version=2)
    reading.log.files[number] = newer_format(reading.log.files[number])
    reading.time += LISTING_INTERVAL_S
    with pytest.raises(FencedError, match=f"document {number}: format {FORMAT + 1} is newer"):
        reading.version()


def test_an_incomplete_document_of_a_newer_format_is_ignored_until_it_is_complete():
    reading = Reading()
    reading.log.write(1, version=1)
    reading.log.write(2, version=2)
    complete = newer_format(reading.log.files[2])
    reading.log.files[2] = complete[:40]
    assert reading.version() == 1
    reading.log.files[2] = complete
    with pytest.raises(FencedError):
        reading.version()


def test_a_listing_that_lags_does_not_bring_back_an_older_directive():
    """The driver reads the next number before the listing of the store contains it, and then lists the journal."""
    reading = Reading()
    reading.log.write(1, version=1)
    assert reading.version() == 1
    reading.log.write(2, version=2)
    assert reading.version() == 2
    reading.log.unlisted = {2}
    reading.time += LISTING_INTERVAL_S
    assert reading.version() == 2
    reading.log.write(3, version=3)
    assert reading.version() == 3


DAY_S = 86_400.0


def test_driver_stops_when_no_new_document_appears_for_the_orphan_timeout() -> None:
    reading = Reading(orphan_timeout_s=DAY_S)
    reading.log.write(1, version=1)
    reading.time = 10.0
    assert reading.action() is Action.RUN
    reading.time += DAY_S
    assert reading.action() is Action.RUN
    reading.time += 1.0
    assert [reading.action(), reading.action()] == [Action.STOP, Action.STOP]
    assert reading.reported == ["journal document 1 ignored: no new document for 86400 s (orphan timeout): stopping"]


def test_driver_continues_while_new_documents_appear() -> None:
    reading = Reading(orphan_timeout_s=DAY_S)
    for number in range(1, 20):
        reading.log.write(number, version=1)
        assert reading.action() is Action.RUN
        reading.time += 0.9 * DAY_S
    assert not reading.reported
