"""What a loop bears: a job directory that fails at any moment, and other loops that take over at any moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest

from airflow_adaptive._core.ports import ForeignDirectoryError, JobDirectoryError, SubmissionState
from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document, encode_document
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.scheduler.state import Finished, Outcome
from airflow_adaptive._core.scheduler.timeline import ReasonCode
from airflow_adaptive._engine.directory_outage import DirectoryOutage
from airflow_adaptive._engine.journal.journal import SupersededError
from airflow_adaptive._engine.loop import RunLimits
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import Simulation

Refusal = Callable[[JournalDocument], bool]


def never(_: JournalDocument) -> bool:
    return False


class FailingJobDirectory(FakeJobDirectory):
    """A job directory whose operations fail on request of a test.

    Attributes:
        refuses: documents whose creation fails.
        loses: documents that are created, without an answer.
        compacts: whether the log can be compacted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Refusal = never
        self.loses: Refusal = never
        self.compacts = True

    async def create(self, document: JournalDocument) -> bool:
        if self.refuses(document):
            raise JobDirectoryError("no answer: not created")
        created = await super().create(document)
        if self.loses(document):
            raise JobDirectoryError("no answer: created")
        return created

    async def compact(self, keep: int) -> None:
        if not self.compacts:
            raise JobDirectoryError("no answer: not compacted")
        await super().compact(keep)


class Once:
    """True for the first document that a predicate holds for."""

    def __init__(self, holds: Refusal) -> None:
        self.holds = holds
        self.happened = False

    def __call__(self, document: JournalDocument) -> bool:
        if self.happened or not self.holds(document):
            return False
        self.happened = True
        return True


@pytest.fixture
def directory() -> FailingJobDirectory:
    return FailingJobDirectory()


@pytest.fixture
def small(directory: FailingJobDirectory) -> Simulation:
    """A cluster with room for the driver and one slot."""
    simulation = Simulation(resource_stabilization_timeout="2 s")
    simulation.directory = directory
    simulation.drivers._directory = directory
    simulation.ports = replace(simulation.ports, directory=directory)
    simulation.cluster.add_worker(cores=2, memory_mb=1024)
    return simulation


def request(simulation: Simulation, desired_state: DesiredState) -> Callable[[], None]:
    return lambda: setattr(simulation.store, "requests", ControlRequests(desired_state=desired_state))


def outcome(simulation: Simulation) -> Outcome:
    return simulation.run_to_end().outcome


@pytest.mark.parametrize("failure", ["refuses", "loses"])
@pytest.mark.parametrize("number", range(1, 12))
def test_document_whose_creation_fails_is_created_again_and_acted_on_once(
    small: Simulation, directory: FailingJobDirectory, failure: str, number: int
) -> None:
    fails = Once(lambda document: document.number == number)
    setattr(directory, failure, fails)
    small.clock.at(20, small.drivers.finish)
    assert outcome(small) is Outcome.FINISHED
    assert fails.happened or number > max(directory.journal)
    assert len(small.cluster.submissions) == 1
    assert [epoch for epoch, _, _ in small.drivers.started] == [1]


def test_directory_away_at_the_start_is_waited_for(small: Simulation, directory: FailingJobDirectory) -> None:
    directory.available = False
    small.clock.at(20, lambda: setattr(directory, "available", True))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    assert outcome(small) is Outcome.SUSPENDED


def with_timeout(simulation: Simulation) -> None:
    """Let the loop tolerate an outage of five minutes."""
    options = replace(simulation.spec.options, job_directory_timeout=timedelta(minutes=5))
    simulation.spec = replace(simulation.spec, options=options)


def test_directory_that_is_away_is_read_with_backoff_though_a_timer_is_due(
    small: Simulation, directory: FailingJobDirectory
) -> None:
    polled_at: list[float] = []

    def stop_loop() -> None:
        directory.available = False
        small.clock.tick = lambda: polled_at.append(small.clock.elapsed)

    with_timeout(small)
    small.clock.at(1, stop_loop)  # the timer of the stabilisation is due a second later
    with pytest.raises(JobDirectoryError):
        small.run()
    intervals = [later - earlier for earlier, later in pairwise(polled_at)]
    assert intervals[1:6] == pytest.approx([1, 2, 4, 8, 10])  # The cycle before the outage was early.
    assert max(intervals) == pytest.approx(10)
    assert polled_at[-1] == pytest.approx(300, abs=15)


def test_outage_of_an_hour_kills_nothing_and_is_reported(small: Simulation, directory: FailingJobDirectory) -> None:
    """The triggerer cannot reach the job directory for an hour; the driver can; the same driver continues afterwards."""
    small.clock.at(30, lambda: setattr(directory, "available", False))
    small.clock.at(3630, lambda: setattr(directory, "available", True))
    small.clock.at(3700, request(small, DesiredState.SUSPENDED))
    during: list[str] = []
    small.clock.at(1000, lambda: during.extend(reports(small)))
    assert outcome(small) is Outcome.SUSPENDED
    assert [epoch for epoch, _, _ in small.drivers.started] == [1]
    assert SubmissionState.KILLED not in small.cluster.states.values()
    assert len(during) == 1
    assert during[0].startswith("the job directory cannot be used; the loop tries again and changes nothing until then")
    ended = [decision["reason"] for document in documents(directory) for decision in document.decisions]
    assert [text for text in ended if "job directory" in text] == [reports(small)[-1]]
    assert "the job directory could not be used for 360" in reports(small)[-1]  # 3600 s, and up to 10 s of the backoff


def test_driver_that_could_not_write_during_an_outage_has_time_for_its_next_status(
    small: Simulation, directory: FailingJobDirectory
) -> None:
    """Neither the loop nor the driver reaches the job directory; the loop reads the old status before the driver has written another."""
    small.spec = replace(small.spec, options=replace(small.spec.options, driver_heartbeat_timeout=seconds(10)))

    def fail() -> None:
        directory.available, small.drivers.hang = False, True

    small.clock.at(30, fail)
    small.clock.at(50, lambda: setattr(directory, "available", True))
    small.clock.at(57, lambda: setattr(small.drivers, "hang", False))
    small.clock.at(90, request(small, DesiredState.SUSPENDED))
    assert outcome(small) is Outcome.SUSPENDED
    assert [epoch for epoch, _, _ in small.drivers.started] == [1]


def test_read_that_fails_once_is_no_outage(small: Simulation, directory: FailingJobDirectory) -> None:
    small.clock.at(30, lambda: setattr(directory, "available", False))
    small.clock.at(30.5, lambda: setattr(directory, "available", True))
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    assert outcome(small) is Outcome.SUSPENDED
    assert reports(small) == []


def test_loop_returns_at_its_limit_during_an_outage(small: Simulation, directory: FailingJobDirectory) -> None:
    small.clock.at(30, lambda: setattr(directory, "available", False))
    small.run(RunLimits(recycle_at=START + timedelta(minutes=10)))
    assert small.clock.elapsed == pytest.approx(600, abs=1)


def reports(simulation: Simulation) -> list[str]:
    """Reports of outages in the newest view that was published."""
    decisions = simulation.store.views[-1].history.decisions
    code = ReasonCode.JOB_DIRECTORY_UNAVAILABLE
    return [decision.reason for decision in decisions if decision.reason_code is code]


def documents(directory: FailingJobDirectory) -> list[JournalDocument]:
    return [decode_document(JournalDocument, directory.journal[number]) for number in sorted(directory.journal)]


def test_claim_that_fails_shows_no_transition_twice(small: Simulation, directory: FailingJobDirectory) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=20)))
    transitions = small.transitions
    claimed = max(directory.journal) + 1
    directory.refuses = Once(lambda document: document.number == claimed)
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    assert small.transitions == transitions


def test_log_that_can_not_be_compacted_goes_on(small: Simulation, directory: FailingJobDirectory) -> None:
    directory.compacts = False
    small.clock.at(20, request(small, DesiredState.SUSPENDED))
    small.run(RunLimits(recycle_at=small.clock.now() + timedelta(seconds=5)))
    for _ in range(100):  # each loop claims the log with a document
        small.run(RunLimits(recycle_at=small.clock.now() + timedelta(milliseconds=1)))
    assert outcome(small) is Outcome.SUSPENDED
    assert len(small.cluster.submissions) == 1
    assert max(directory.journal) > 100


def test_new_start_whose_document_fails_is_tried_again(small: Simulation, directory: FailingJobDirectory) -> None:
    small.clock.at(20, small.drivers.finish)
    small.run()
    small.spec = replace(small.spec, attempt="attempt-2")
    claimed = max(directory.journal) + 1
    directory.refuses = Once(lambda document: document.number == claimed + 1)
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    assert outcome(small) is Outcome.SUSPENDED
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 2]


def test_loop_that_follows_one_that_died_before_the_new_start_starts_again(
    small: Simulation, directory: FailingJobDirectory
) -> None:
    small.clock.at(20, small.drivers.finish)
    small.run()
    small.spec = replace(small.spec, attempt="attempt-2")
    claimed = max(directory.journal) + 1
    directory.refuses = lambda document: document.number > claimed
    small.run(RunLimits(recycle_at=small.clock.now() + timedelta(seconds=5)))
    directory.refuses = never
    small.clock.at(60, request(small, DesiredState.SUSPENDED))
    assert outcome(small) is Outcome.SUSPENDED
    assert [epoch for epoch, _, _ in small.drivers.started] == [1, 2]


@pytest.mark.parametrize("relieves", [True, False], ids=["the loop that it relieves", "a third one"])
def test_loop_that_takes_over_while_another_writes_yields_only_to_a_third_one(
    small: Simulation, directory: FailingJobDirectory, relieves: bool
) -> None:
    small.run(RunLimits(recycle_at=START + timedelta(seconds=30)))
    newest = decode_document(JournalDocument, directory.journal[max(directory.journal)])
    other = replace(newest, number=newest.number + 1, owner=newest.owner if relieves else "attempt-3#third")

    def is_forestalled(document: JournalDocument) -> bool:
        directory.journal.setdefault(other.number, encode_document(other))
        return False

    async def is_earlier(attempt: str) -> bool:
        return attempt != "attempt-3"

    directory.refuses = is_forestalled
    small.ports = replace(small.ports, may_take_over=is_earlier)
    expected = nullcontext() if relieves else pytest.raises(SupersededError)
    with expected:
        small.run(RunLimits(recycle_at=START + timedelta(seconds=60)))
    assert (max(directory.journal) > other.number) is relieves


def test_superseded_loop_names_the_attempt_that_took_over(small: Simulation) -> None:
    async def take_over() -> None:
        first = asyncio.create_task(small.loop().run())
        await asyncio.sleep(0)
        small.spec = replace(small.spec, attempt="attempt-2")
        await small.loop(RunLimits(recycle_at=START + timedelta(seconds=60))).run()
        await first

    with pytest.raises(SupersededError) as raised:
        asyncio.run(take_over())
    assert raised.value.attempt == "attempt-2"


def test_killing_the_task_of_a_job_that_never_began_submits_nothing(small: Simulation) -> None:
    small.spec = replace(small.spec, graph=Simulation(parallelism=(1, 1)).spec.graph)  # all that it wants is there
    ended = asyncio.run(small.loop().cancel()).current
    assert isinstance(ended, Finished)
    assert ended.outcome is Outcome.CANCELED
    assert not small.cluster.submissions


def test_directory_of_another_job_is_not_waited_for(small: Simulation, directory: FailingJobDirectory) -> None:
    async def foreign() -> JournalDocument | None:
        raise ForeignDirectoryError("journal/0000000001.json was written by job 'other'")

    directory.newest = foreign  # type: ignore[method-assign]
    with pytest.raises(ForeignDirectoryError, match="job 'other'"):
        small.run()
    assert small.clock.elapsed == 0


# ---- the outage by itself -------------------------------------------------------------------------------------------

ERROR = JobDirectoryError("no answer")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_retry_interval_doubles_up_to_ten_seconds_or_the_poll_interval() -> None:
    outage, intervals = DirectoryOutage(None), []
    for failure in range(2000):  # an outage of hours
        outage.tolerate(ERROR, START + seconds(failure))
        intervals.append(outage.retry_interval(seconds(1)))
    assert intervals[:6] == [seconds(number) for number in (1, 2, 4, 8, 10, 10)]
    assert intervals[-1] == seconds(10)
    assert outage.retry_interval(seconds(60)) == seconds(60)


def test_each_error_of_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    outage = DirectoryOutage(None)
    with caplog.at_level(logging.WARNING):
        for error in (ERROR, ERROR, JobDirectoryError("disk full"), JobDirectoryError("disk full")):
            outage.tolerate(error, START)
    assert [message.rpartition(": ")[2] for message in caplog.messages] == [
        "no answer [job-directory]",
        "disk full [job-directory]",
    ]


@pytest.mark.parametrize("system", ["cluster", "directory"])
def test_last_error_is_that_of_the_newest_cycle(small: Simulation, system: str) -> None:
    fake, is_usable = (small.cluster, "reachable") if system == "cluster" else (small.directory, "available")
    loop = small.loop(RunLimits(recycle_at=START + timedelta(seconds=60)))
    errors: list[str | None] = []
    for seconds, usable in ((20, False), (40, True)):
        small.clock.at(seconds, partial(setattr, fake, is_usable, usable))
    for seconds in (19, 39, 59):
        small.clock.at(seconds, lambda: errors.append(loop.last_error))
    asyncio.run(loop.run())
    assert [error is None for error in errors] == [True, False, True]
