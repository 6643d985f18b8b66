"""The journal: one loop claims it, persists each step, and notices another loop."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._core.protocol.documents import JournalDocument, decode_document, encode_document, journal_name
from airflow_adaptive._core.requirements.advice import PolicyMemory
from airflow_adaptive._core.requirements.limits import ReportedLimits
from airflow_adaptive._core.requirements.resolver import MEMORY_REFRESH_INTERVAL, ResolverMemory
from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import CancelRequested, SchedulingStarted
from airflow_adaptive._core.scheduler.state import Created, SchedulerState, WaitingForResources
from airflow_adaptive._core.scheduler.steps import Step
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive._core.view import LagAlert
from airflow_adaptive._engine.driver_heartbeat import NO_HEARTBEAT
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.journal import Journal, SupersededError, attempt_of
from airflow_adaptive._engine.journal.step_document import LoopMemory, recalled
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import StorageThreads
from airflow_adaptive._engine.observation.source_lag import LagAlerts
from tests.lab.contracts.job_directory import status_document
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.fakes.virtual_time import run as run_in_virtual_time
from tests.lab.simulation.one_job import small_job
from tests.support.runtime.slow_storage import MemoryStore, answer_in_virtual_time

DOCUMENTS = 200
"""Documents of each journal."""

READ_S = 0.03
"""Latency of one call to an object store, in seconds."""


def journal(directory: Any, attempt: str = "attempt-1", job: str = "job") -> Journal:
    return Journal(directory, replace(small_job(job, (1, 4), {}), attempt=attempt))


def documents(directory: FakeJobDirectory) -> list[Any]:
    return [decode_document(JournalDocument, directory.journal[number]) for number in sorted(directory.journal)]


# ---- one journal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def directory() -> FakeJobDirectory:
    return FakeJobDirectory()


@pytest.mark.asyncio
async def test_first_loop_begins_the_journal_with_a_document(directory: FakeJobDirectory) -> None:
    state = await journal(directory).open(START)
    assert isinstance(state.current, Created)
    assert [(it.number, attempt_of(it.owner)) for it in documents(directory)] == [(1, "attempt-1")]


@pytest.mark.asyncio
async def test_step_is_persisted_and_adopted_by_the_next_loop(directory: FakeJobDirectory) -> None:
    first = journal(directory)
    created = await first.open(START)
    step = machine.step(created, SchedulingStarted(at=START))
    await first.save(step, created, START)
    adopted = await journal(directory, "attempt-2").open(START)
    assert isinstance(adopted.current, WaitingForResources)
    assert [len(it.transitions) for it in documents(directory)] == [0, 1, 0]


@pytest.mark.asyncio
@pytest.mark.parametrize("attempt", ["attempt-1", "attempt-2"])
async def test_journal_that_no_listing_contains_yet_is_adopted_by_the_same_attempt_only(
    directory: FakeJobDirectory, attempt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A triggerer begins a job and stops. The listing of the next triggerer is still empty. Another task would begin the job at the same time."""
    first = journal(directory)
    created = await first.open(START)
    await first.save(machine.step(created, SchedulingStarted(at=START)), created, START)

    async def nothing() -> None:
        monkeypatch.undo()

    monkeypatch.setattr(directory, "newest", nothing)
    if attempt == "attempt-2":
        with pytest.raises(SupersededError):
            await journal(directory, attempt).open(START)
    else:
        adopted = await journal(directory, attempt).open(START)
        assert isinstance(adopted.current, WaitingForResources)
        assert [len(it.transitions) for it in documents(directory)] == [0, 1, 0]


@pytest.mark.asyncio
async def test_step_that_changes_nothing_is_not_persisted(directory: FakeJobDirectory) -> None:
    opened = journal(directory)
    created = await opened.open(START)
    await opened.save(Step(state=created), created, START)
    assert len(directory.journal) == 1


@pytest.mark.asyncio
async def test_loop_that_was_superseded_notices_before_and_while_it_writes(directory: FakeJobDirectory) -> None:
    first, second = journal(directory), journal(directory, "attempt-2")
    created = await first.open(START)
    await second.open(START)
    with pytest.raises(SupersededError) as noticed:
        await first.check(START)
    assert noticed.value.attempt == "attempt-2"
    with pytest.raises(SupersededError):
        await first.save(machine.step(created, SchedulingStarted(at=START)), created, START)
    await second.check(START)


@pytest.mark.asyncio
@pytest.mark.parametrize("notice", ["check", "start_again"])
async def test_loop_is_a_duplicate_if_another_one_claims_the_end_of_an_earlier_attempt(
    directory: FakeJobDirectory, notice: str
) -> None:
    """A trigger of a cleared task was frozen before it started its job again, and another triggerer started the trigger, too.

    The frozen loop took the claim of its duplicate, which still had the earlier attempt, for another task, so the task failed.
    """
    earlier = journal(directory)
    created = await earlier.open(START)
    canceled = machine.step(created, CancelRequested(at=START))
    await earlier.save(canceled, created, START)
    frozen, duplicate = journal(directory, "attempt-2"), journal(directory, "attempt-2")
    ended = await frozen.open(START)
    await duplicate.open(START)
    with pytest.raises(SupersededError) as noticed:
        await (frozen.check(START) if notice == "check" else frozen.start_again(ended, START))
    assert noticed.value.attempt == "attempt-2"


@pytest.mark.asyncio
async def test_new_run_of_an_ended_job_forgets_gangs_and_alerts(
    directory: FakeJobDirectory,
) -> None:
    earlier, alerts = journal(directory), LagAlerts(expiring=LagAlert(since=START, lag_s=5.0, expires_at=START))
    limits = ReportedLimits(inputs={"job": 2}, gangs={"q": 3})
    earlier.memory = LoopMemory(resolver=ResolverMemory(limits=limits), lag_alerts=alerts)
    created = await earlier.open(START)
    await earlier.save(machine.step(created, CancelRequested(at=START)), created, START)
    again = journal(directory, "attempt-2")
    ended = await again.open(START)
    assert (again.memory.resolver.limits, again.memory.lag_alerts, again.inherits_end) == (limits, alerts, True)
    await again.start_again(ended, START)
    assert not again.inherits_end
    found = recalled(documents(directory)[-1].memory, ended.epoch, START)
    assert (found.resolver.limits, found.lag_alerts) == (ReportedLimits(inputs={"job": 2}), LagAlerts())


@pytest.mark.asyncio
async def test_memory_that_cannot_be_read_is_reported_and_begun_again(
    directory: FakeJobDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    await journal(directory).open(START)
    directory.journal[1] = encode_document(replace(documents(directory)[-1], memory={"heartbeat": 7}))
    opened = journal(directory)
    await opened.open(START)
    assert replace(opened.memory, declarations={}, specs={}) == LoopMemory(heartbeat=NO_HEARTBEAT.continued(0, START))
    assert "The memory of the earlier loop in the journal is invalid, and is begun again" in caplog.text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("policy", "age"),
    [(None, timedelta(hours=12)), (PolicyMemory(kind="LoadPolicy", at=START, content=1), MEMORY_REFRESH_INTERVAL)],
)
async def test_document_is_renewed_when_it_or_the_memory_of_a_policy_is_too_old(
    directory: FakeJobDirectory, policy: PolicyMemory | None, age: timedelta
) -> None:
    opened = journal(directory)
    state = await opened.open(START)
    opened.memory = replace(opened.memory, resolver=ResolverMemory(policy=policy))
    await opened.renew(state, START + age - timedelta(seconds=1))
    assert len(directory.journal) == 1
    await opened.renew(state, START + age)
    assert len(directory.journal) == 2


@pytest.mark.asyncio
async def test_time_continues_if_the_clock_was_set_back_between_two_loops(directory: FakeJobDirectory) -> None:
    await journal(directory).open(START)
    later = journal(directory)
    await later.open(START - timedelta(minutes=5))
    assert later.time(START - timedelta(minutes=5)) == START


@pytest.mark.asyncio
async def test_log_entry_whose_document_fails_is_written_again(directory: FakeJobDirectory) -> None:
    opened = journal(directory)
    state = await opened.open(START)
    opened.add_log_entry(Reason(ReasonCode.POLICY_FAILED, "ignored"))
    directory.available = False
    with pytest.raises(JobDirectoryError):
        await opened.write_log_entries(state, START)
    directory.available = True
    await opened.write_log_entries(state, START)
    await opened.write_log_entries(state, START)
    assert [decision["reason"] for it in documents(directory) for decision in it.decisions] == ["ignored"]


@pytest.mark.asyncio
async def test_step_is_persisted_although_an_earlier_document_failed(directory: FakeJobDirectory) -> None:
    """The document of a log entry fails; the directory returns; a step follows: the step must not count as persisted by that document."""
    opened = journal(directory)
    state = await opened.open(START)
    opened.add_log_entry(Reason(ReasonCode.POLICY_FAILED, "ignored"))
    directory.available = False
    with pytest.raises(JobDirectoryError):
        await opened.write_log_entries(state, START)
    directory.available = True
    step = machine.step(state, SchedulingStarted(at=START))
    await opened.save(step, state, START)
    assert [(len(it.decisions), len(it.transitions)) for it in documents(directory)] == [(0, 0), (1, 0), (1, 1)]
    await opened.write_log_entries(step.state, START)
    reasons = [decision["reason"] for it in documents(directory) for decision in it.decisions]
    assert reasons.count("ignored") == 1


@pytest.mark.asyncio
async def test_step_whose_document_fails_is_persisted_once(directory: FakeJobDirectory) -> None:
    opened = journal(directory)
    state = await opened.open(START)
    step = machine.step(state, SchedulingStarted(at=START))
    directory.available = False
    with pytest.raises(JobDirectoryError):
        await opened.save(step, state, START)
    directory.available = True
    await opened.save(step, state, START + timedelta(seconds=5))
    assert [len(it.transitions) for it in documents(directory)] == [0, 1]


# ---- takeover -------------------------------------------------------------------------------------------------------


def store_with_journals(jobs: int) -> MemoryStore:
    """An object store with the journal, and the status of the driver, of each job."""
    store, fake = MemoryStore(), FakeJobDirectory("job-0")
    asyncio.run(journal(fake, job="job-0").open(START))
    fields = json.loads(fake.journal[1])
    for job in (f"job-{number}" for number in range(jobs)):
        newest = json.dumps({**fields, "job": job}).encode()
        for number in range(1, DOCUMENTS + 1):
            path = f"jobs/{job}/journal/{journal_name(number)}"
            store.files[path] = newest.replace(b'"number": 1', b'"number": %d' % number, 1)
        store.files[f"jobs/{job}/status.json"] = encode_document(status_document(job=job))
    return store


async def take_over(store: MemoryStore, job: str) -> tuple[float, Journal]:
    """Claim the journal of a job and read the status of its driver; return the seconds that this takes."""
    opened = journal(FsspecJobDirectory(Storage(store, "jobs"), job), "attempt-2", job)
    state = await opened.open(START)
    assert isinstance(state, SchedulerState)
    assert f"jobs/{job}/journal/{journal_name(DOCUMENTS + 1)}" in store.files
    assert ("read", f"jobs/{job}/status.json") in store.calls
    return asyncio.get_running_loop().time(), opened


def test_claim_reads_the_newest_document_and_not_the_history(tmp_path: Path) -> None:
    """A loop takes over a journal of 200 documents: only a few reads come before the creation of its own document."""
    store = store_with_journals(1)
    asyncio.run(take_over(store, "job-0"))
    created = next(index for index, (operation, _) in enumerate(store.calls) if operation == "create")
    assert created < 8


@pytest.mark.parametrize("delay_s", [READ_S, 0.16, 2.0])
def test_one_takeover_succeeds_on_a_slow_storage(monkeypatch: pytest.MonkeyPatch, delay_s: float) -> None:
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(delay_s))
    elapsed, _ = run_in_virtual_time(take_over(store_with_journals(1), "job-0"))
    assert elapsed < 12 * delay_s


@pytest.mark.parametrize("interval_s", [1.0, 1.2, 1.5, 1.8])
def test_claim_succeeds_while_the_other_loop_writes_every_second(
    monkeypatch: pytest.MonkeyPatch, interval_s: float
) -> None:
    """The old loop writes a document per second without a delay, and a call of the new loop takes 300 ms."""
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(0.3))
    store = store_with_journals(1)
    path = "jobs/job-0/journal/{}".format

    async def write() -> None:
        """Write documents until the new loop has created one."""
        number, newest = DOCUMENTS, store.files[path(journal_name(DOCUMENTS))]
        while True:
            number, old = number + 1, b'"number": %d' % number
            newest = newest.replace(old, b'"number": %d' % number)
            if store.files.setdefault(path(journal_name(number)), newest) != newest:
                return
            await asyncio.sleep(interval_s)

    async def claim() -> float:
        old = asyncio.create_task(write())
        opened = journal(FsspecJobDirectory(Storage(store, "jobs"), "job-0"), "attempt-2", "job-0")
        await opened.open(START)
        claimed = asyncio.get_running_loop().time()
        opened.close()
        await old
        return claimed

    assert run_in_virtual_time(claim()) < 10


def test_history_is_read_in_parallel_after_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 documents at 30 ms take 6 s one after the other, and less than 1 s in parallel."""
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(READ_S))
    store = store_with_journals(1)

    async def read() -> float:
        claimed, opened = await take_over(store, "job-0")
        assert opened.history.is_pending
        await opened.history.wait()
        assert opened.history.is_kept
        return asyncio.get_running_loop().time() - claimed

    assert run_in_virtual_time(read()) < 1


def test_compaction_removes_documents_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for the compaction: 199 removals at 30 ms take 6 s one after the other."""
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(READ_S))
    store = store_with_journals(1)

    async def compact() -> float:
        await FsspecJobDirectory(Storage(store, "jobs"), "job-0").compact(1)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(compact()) < 1
    assert len([path for path in store.files if "/journal/" in path]) == 1


@pytest.mark.asyncio
async def test_records_that_are_taken_while_the_history_is_read_come_last(
    directory: FakeJobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop takes over and makes a step before the read of the older documents has ended."""
    first = journal(directory)
    created = await first.open(START)
    await first.save(machine.step(created, SchedulingStarted(at=START)), created, START)
    answered, history = asyncio.Event(), directory.history

    async def late_history(limit: int, before: int | None = None) -> Any:
        await answered.wait()
        return await history(limit, before)

    monkeypatch.setattr(directory, "history", late_history)
    second = journal(directory, "attempt-2")
    state = await second.open(START)
    second.add_log_entry(Reason(ReasonCode.POLICY_FAILED, "newer"))
    await second.write_log_entries(state, START)
    assert [decision.reason for decision in second.history.at(state).decisions] == ["newer"]
    answered.set()
    await second.history.wait()
    reasons = [decision.reason for decision in second.history.at(state).decisions]
    assert reasons.index("newer") == len(reasons) - 1
    assert [transition.target for transition in second.history.at(state).transitions] == ["WaitingForResources"]
    assert encode_document(documents(directory)[-1]) == directory.journal[max(directory.journal)]


class DamagedStore(MemoryStore):
    """An object store that answers an error for one file."""

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        if path == f"jobs/job-0/journal/{journal_name(100)}":
            raise RuntimeError("damaged object")
        return super().cat_file(path, start=start, end=end, **kwargs)


def test_document_of_the_past_that_can_never_be_read_does_not_prevent_the_compaction(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop takes over 200 documents, one of them cannot be read in ten minutes, and the loop writes 100 documents after that."""
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(READ_S))
    store = DamagedStore()
    store.files = store_with_journals(1).files

    async def run() -> None:
        opened = Journal(
            FsspecJobDirectory(Storage(store, "jobs"), "job-0"), small_job("job-0", (1, 4), {"history_size": 10})
        )
        state = await opened.open(START)
        for second in range(600):
            await asyncio.sleep(1)
            await opened.check(START + timedelta(seconds=second))
        assert opened.history.is_kept
        for number in range(100):
            opened.add_log_entry(Reason(ReasonCode.POLICY_FAILED, str(number)))
        await opened.write_log_entries(state, START + timedelta(minutes=10))
        opened.close()

    run_in_virtual_time(run())
    assert len([path for path in store.files if "/journal/" in path]) < 20
    assert [text for text in caplog.messages if journal_name(100) in text and "ignoring" in text] == [
        f"Job job-0: ignoring journal/{journal_name(100)} in its job directory: 'jobs/job-0/journal/{journal_name(100)}' on 'memory-store' "
        "cannot be used now (RuntimeError: damaged object): check that the storage answers, and check its address and the credentials of the user of Airflow"
    ]
