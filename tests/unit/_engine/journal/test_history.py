"""The past of a job is kept when loops die, when the journal is compacted, and when the job directory cannot be written."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._core.protocol.documents import JournalDocument, RescaleDocument, decode_document, encode_document
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.history.rescales import summarize
from airflow_adaptive._engine.journal.history import History
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation

QUICK: dict[str, Any] = {
    "resource_stabilization_timeout": "2 s",
    "scaling_interval_min": "5 s",
    "executing_stabilization_timeout": "2 s",
    "max_trigger_delay": "3 s",
}


class FailingJobDirectory(FakeJobDirectory):
    """Its history can't be written, or read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writable = self.is_readable = True
        self.reads = 0

    async def record(self, document: RescaleDocument) -> bool:
        if not self.is_writable:
            raise JobDirectoryError("no permission for history")
        return await super().record(document)

    async def rescales(self, limit: int) -> Sequence[RescaleDocument]:
        self.reads += 1
        if not self.is_readable:
            raise JobDirectoryError("history can't be read")
        return await super().rescales(limit)


@pytest.fixture
def directory() -> FailingJobDirectory:
    return FailingJobDirectory()


@pytest.fixture
def job(directory: FailingJobDirectory) -> Simulation:
    """A job on one slot, for which a second comes after 20 s."""
    return simulation(directory)


def simulation(directory: FailingJobDirectory, **options: object) -> Simulation:
    job = Simulation(**QUICK | options)
    job.directory, job.drivers._directory = directory, directory
    job.ports = replace(job.ports, directory=directory)
    job.cluster.add_worker(cores=2, memory_mb=1024)
    job.clock.at(20, lambda: job.cluster.add_worker(cores=1, memory_mb=512))
    return job


def run(job: Simulation, seconds: float) -> None:
    job.run(RunLimits(recycle_at=job.clock.now() + timedelta(seconds=seconds)))


def compact_fully(directory: FakeJobDirectory) -> None:
    """Compact the journal to its newest document."""
    for number in sorted(directory.journal)[:-1]:
        del directory.journal[number]


def grow(directory: FakeJobDirectory, number: int) -> None:
    """Let the newest document of the journal be this number."""
    newest = decode_document(JournalDocument, directory.journal[max(directory.journal)])
    directory.journal[number] = encode_document(replace(newest, number=number))


def kept(directory: FakeJobDirectory) -> list[tuple[int, str, str]]:
    rescales = [decode_document(RescaleDocument, directory.kept[number]).rescale for number in sorted(directory.kept)]
    return [(rescale["number"], rescale["trigger_cause"], rescale["terminated_reason"]) for rescale in rescales]


def published(job: Simulation) -> list[tuple[int, str, str | None]]:
    rescales = job.store.views[-1].history.rescales
    return [(rescale.number, rescale.trigger_cause, rescale.terminated_reason) for rescale in rescales]


INITIAL = (1, "INITIAL_SCHEDULE", "SUCCEEDED")
GROWTH = (2, "NEW_RESOURCE_AVAILABLE", "SUCCEEDED")


# ---- kept and published -------------------------------------------------------------------------------------------------


def test_rescales_are_kept_and_displayed(job: Simulation, directory: FailingJobDirectory) -> None:
    run(job, 60)
    assert kept(directory) == published(job) == [INITIAL, GROWTH]
    summary = summarize(job.store.views[-1].history.rescales)
    assert (summary.total, summary.completed, summary.in_progress) == (2, 2, 0)
    assert summary.downtime is not None
    assert summary.downtime.max == summary.downtime.min > timedelta(0)


def test_rescale_under_way_is_displayed_last(job: Simulation, directory: FailingJobDirectory) -> None:
    run(job, 21)
    assert published(job) == [INITIAL, (2, "NEW_RESOURCE_AVAILABLE", None)]
    assert kept(directory) == [INITIAL]


def test_rescales_outlive_the_loop_and_the_journal(job: Simulation, directory: FailingJobDirectory) -> None:
    run(job, 60)
    compact_fully(directory)
    run(job, 10)
    assert published(job) == [INITIAL, GROWTH]
    assert len(job.store.views[-1].history.rescales) == 2


def test_numbers_count_on_in_the_next_life_of_a_job(job: Simulation, directory: FailingJobDirectory) -> None:
    job.clock.at(40, lambda: setattr(job.store, "requests", ControlRequests(desired_state=DesiredState.SUSPENDED)))
    job.run()
    job.store.requests = ControlRequests()
    job.spec = replace(job.spec, attempt="attempt-2")
    run(job, 60)
    assert kept(directory) == [INITIAL, GROWTH, (3, "INITIAL_SCHEDULE", "SUCCEEDED")]
    newest = decode_document(RescaleDocument, directory.kept[3]).rescale
    assert (newest["requirements"], newest["attempt"]) == (2, 1)


def test_numbers_count_on_when_the_journal_is_gone(job: Simulation, directory: FailingJobDirectory) -> None:
    run(job, 60)
    directory.journal.clear()
    run(job, 60)
    assert [number for number, _, _ in kept(directory)] == [1, 2, 3]


def test_history_keeps_no_more_than_history_size_rescales(directory: FailingJobDirectory) -> None:
    job = simulation(directory, history_size=1)
    run(job, 60)
    assert published(job) == [GROWTH]
    grow(directory, 99)
    run(job, 1)
    assert kept(directory) == [GROWTH]


# ---- killed and failing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2])
def test_next_loop_keeps_what_a_killed_one_has_only_journaled(
    job: Simulation, directory: FailingJobDirectory, lost: int
) -> None:
    run(job, 60)
    for number in range(3 - lost, 3):
        del directory.kept[number]
    run(job, 1)
    assert kept(directory) == published(job) == [INITIAL, GROWTH]


def test_job_goes_on_when_its_history_can_not_be_written(
    job: Simulation, directory: FailingJobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.is_writable = False
    with caplog.at_level(logging.WARNING):
        run(job, 60)
    assert job.states[-1] == "Executing"
    assert published(job) == [INITIAL, GROWTH]
    complaints = [message for message in caplog.messages if "cannot be kept now" in message]
    assert complaints == [
        "The rescales of job 'job' cannot be kept now; the loop tries again: no permission for history"
    ]


def test_history_is_written_when_it_can_be_again(job: Simulation, directory: FailingJobDirectory) -> None:
    directory.is_writable = False
    job.clock.at(50, lambda: setattr(directory, "is_writable", True))
    run(job, 49)
    assert kept(directory) == []
    run(job, 5)
    assert kept(directory) == [INITIAL, GROWTH]


def test_history_is_read_when_it_can_be_again(job: Simulation, directory: FailingJobDirectory) -> None:
    run(job, 60)
    compact_fully(directory)
    directory.is_readable = False
    job.clock.at(70, lambda: setattr(directory, "is_readable", True))
    run(job, 5)
    assert published(job) == []
    job.clock.at(75, lambda: job.cluster.add_worker(cores=1, memory_mb=512))
    run(job, 60)
    assert published(job) == kept(directory) == [INITIAL, GROWTH, (3, "NEW_RESOURCE_AVAILABLE", "SUCCEEDED")]


def test_past_that_can_not_be_read_is_read_again_with_backoff(job: Simulation, directory: FailingJobDirectory) -> None:
    """A loop takes over, and its read of the past fails in the first and in all further cycles of ten minutes."""
    run(job, 60)
    directory.is_readable, directory.reads = False, 0
    run(job, 600)
    assert 10 < directory.reads < 20


def test_journal_is_not_compacted_before_its_rescales_are_kept(directory: FailingJobDirectory) -> None:
    job = simulation(directory, history_size=1)
    directory.is_writable = False
    run(job, 60)
    grow(directory, 99)
    run(job, 1)
    assert {1, 100} <= set(directory.journal)
    directory.is_writable = True
    grow(directory, 199)
    run(job, 1)
    assert GROWTH in kept(directory)
    assert min(directory.journal) == 200


def test_rescale_that_is_kept_otherwise_stays_as_it_is(
    job: Simulation, directory: FailingJobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.is_readable = False
    run(job, 10)
    asyncio.run(directory.record(RescaleDocument(job="job", number=2, rescale={"author": "another loop"})))
    directory.is_readable = True
    with caplog.at_level(logging.WARNING):
        run(job, 50)
    assert decode_document(RescaleDocument, directory.kept[2]).rescale == {"author": "another loop"}
    assert "Job job has kept another rescale as number 2" in caplog.messages
    assert job.states[-1] == "Executing"


def test_rescale_that_can_not_be_read_is_passed_over(
    directory: FailingJobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(directory.record(RescaleDocument(job="job", number=1, rescale={"number": 1, "trigger_cause": "MOON"})))
    history = History(directory, "job", 10)
    with caplog.at_level(logging.WARNING):
        asyncio.run(history.open())
    assert list(history.rescales) == []
    assert "A rescale of the past cannot be read" in caplog.text


# ---- decisions not to move ------------------------------------------------------------------------------------------


def test_decision_not_to_move_is_written_once(directory: FailingJobDirectory) -> None:
    job = simulation(directory, min_parallelism_increase=5)
    run(job, 120)
    documents = [decode_document(JournalDocument, directory.journal[number]) for number in sorted(directory.journal)]
    assert datetime.fromisoformat(documents[-1].at) < START + timedelta(seconds=25)
    reasons = [decision["reason"] for document in documents for decision in document.decisions]
    assert reasons.count("{'job': 1} -> {'job': 2} is possible, but is below the minimum increase") == 1
    decisions = job.store.views[-1].history.decisions
    assert [decision.reason for decision in decisions] == reasons


# ---- records --------------------------------------------------------------------------------------------------------
