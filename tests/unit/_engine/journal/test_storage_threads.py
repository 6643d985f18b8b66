"""A storage that hangs blocks neither other storages, nor the process, nor its own threads without end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._engine.journal import storage_threads
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from airflow_adaptive._engine.journal.storage_threads import (
    MOST_OVERDUE_PER_PART,
    REPLACEMENTS,
    THREADS,
    StorageThreads,
)
from airflow_adaptive.local.waiting import wait_until
from tests.lab.contracts.job_directory import JOB, journal_document
from tests.lab.fakes.virtual_time import run as run_in_virtual_time
from tests.support.repository import ROOT
from tests.support.runtime.slow_storage import HangingFileSystem, answer_in_virtual_time
from tests.support.waiting import wait_until_async

LIMIT_S = 60.0

PROGRAM = """
import asyncio, sys, threading
from airflow_adaptive._core.ports import JobDirectoryError
from airflow_adaptive._engine.journal.job_directory import FsspecJobDirectory
from airflow_adaptive._engine.journal.storage import Storage
from tests.support.runtime.slow_storage import HangingFileSystem

try:
    asyncio.run(FsspecJobDirectory(Storage(HangingFileSystem(), "/hanging"), "flights", timeout_s=0.1).newest())
except JobDirectoryError as error:
    print(error)
"""


@pytest.fixture
def hanging() -> Iterator[HangingFileSystem]:
    filesystem = HangingFileSystem()
    yield filesystem
    filesystem.released.set()


def blocked_until(event: threading.Event) -> Callable[[], str]:
    def call() -> str:
        event.wait()
        return "late answer"

    return call


@pytest.mark.asyncio
async def test_other_storages_and_name_resolution_continue_while_a_storage_hangs(
    hanging: HangingFileSystem, tmp_path: Path
) -> None:
    """100 loops read a hanging storage; then a job reads another storage, and a client resolves a name."""
    loops = [
        asyncio.create_task(FsspecJobDirectory(Storage(hanging, "/hanging"), f"job-{number}").newest())
        for number in range(100)
    ]
    await wait_until_async(_holds(lambda: hanging.calls > 0), LIMIT_S, "a call that hangs", 0.01)
    (tmp_path / JOB).mkdir()
    healthy = FsspecJobDirectory(Storage.at(str(tmp_path)), JOB)
    async with asyncio.timeout(LIMIT_S):
        assert await healthy.create(journal_document(1))
        assert await healthy.newest() == journal_document(1)
        assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
    assert hanging.calls <= THREADS
    assert not any(loop.done() for loop in loops)
    hanging.released.set()
    assert await asyncio.gather(*loops) == [None] * 100


def test_process_ends_while_a_storage_hangs() -> None:
    """A worker stages code, the storage hangs, and the call is abandoned: neither `asyncio.run` nor the exit waits for its thread."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    assert "did not answer within 0.1 s" in ran.stdout


@pytest.mark.asyncio
async def test_calls_fail_at_once_after_a_timeout_until_the_storage_answers() -> None:
    """A call times out; the call that waits for its thread and later calls fail; the storage answers; calls succeed."""
    released = threading.Event()
    threads = StorageThreads(1)
    hangs = asyncio.create_task(threads.call(blocked_until(released), 0.05))
    await asyncio.sleep(0)
    waits = asyncio.create_task(threads.call(lambda: "never made", LIMIT_S))
    with pytest.raises(JobDirectoryError, match=r"did not answer within 0.05 s: check that the storage is reachable"):
        await hangs
    with pytest.raises(JobDirectoryError, match="did not answer within"):
        await waits
    with pytest.raises(JobDirectoryError, match="has not answered since a timeout"):
        await threads.call(lambda: "refused", LIMIT_S)
    released.set()
    await wait_until_async(_answers(lambda: threads.call(lambda: True, LIMIT_S)), LIMIT_S, "an answer", 0.01)


@pytest.mark.asyncio
async def test_job_directory_that_hangs_leaves_the_threads_to_the_other_jobs(tmp_path: Path) -> None:
    """A job directory is a stale mount below the common base: its loop tries again without end, while another job is answered."""
    filesystem = HangingFileSystem("stale")
    sick = FsspecJobDirectory(Storage(filesystem, str(tmp_path)), "stale", timeout_s=0.01)
    healthy = FsspecJobDirectory(Storage(filesystem, str(tmp_path)), JOB)
    for _ in range(2 * THREADS):
        with pytest.raises(JobDirectoryError, match="check that the storage is reachable"):
            await sick.newest()
        assert await healthy.newest() is None
    assert filesystem.calls == MOST_OVERDUE_PER_PART
    filesystem.released.set()
    await wait_until_async(_answers(sick.newest), LIMIT_S, "an answer", 0.01)


@pytest.mark.asyncio
@pytest.mark.parametrize("canceled", [0, 2, 4])
async def test_threads_of_overdue_calls_are_replaced_while_other_job_directories_are_answered(canceled: int) -> None:
    """All threads make calls of job directories that hang; their callers time out or are canceled; another job continues."""
    released = threading.Event()
    threads = StorageThreads(4)
    stuck = [
        asyncio.create_task(threads.call(blocked_until(released), 0.05, part=f"hangs-{number // 2}"))
        for number in range(4)
    ]
    await asyncio.sleep(0)
    for call in stuck[:canceled]:
        call.cancel()
    await asyncio.wait(stuck)

    async def made() -> bool:
        return await threads.call(lambda: True, LIMIT_S, part="healthy")

    await wait_until_async(_answers(made), LIMIT_S, "an answer", 0.01)
    assert await asyncio.gather(*(made() for _ in range(8))) == [True] * 8
    released.set()


@pytest.mark.asyncio
async def test_overdue_calls_start_a_limited_number_of_threads() -> None:
    """A storage hangs for long, and the loops of many jobs try again and again: the process does not collect threads without end."""
    released, made = threading.Event(), list[int]()
    threads = StorageThreads(1)

    def hang(number: int) -> None:
        made.append(number)
        released.wait()

    for number in range(2 * REPLACEMENTS):
        with pytest.raises(JobDirectoryError, match="check that the storage is reachable"):
            await threads.call(partial(hang, number), 0.01, part=f"job-{number}")
    assert len(made) == 1 + REPLACEMENTS
    released.set()
    answered = _answers(lambda: threads.call(lambda: True, LIMIT_S, part="job-0"))
    await wait_until_async(answered, LIMIT_S, "an answer", 0.01)


@pytest.mark.asyncio
async def test_one_call_at_a_time_checks_whether_a_hanging_storage_answers_again() -> None:
    """A call times out; the next call checks the storage while others fail; the check succeeds; all calls succeed."""
    never, later = threading.Event(), threading.Event()
    threads = StorageThreads(3)
    with pytest.raises(JobDirectoryError):
        await threads.call(blocked_until(never), 0.05)
    checks = asyncio.create_task(threads.call(blocked_until(later), LIMIT_S))
    await asyncio.sleep(0)
    with pytest.raises(JobDirectoryError, match="has not answered since a timeout"):
        await threads.call(lambda: "refused", LIMIT_S)
    later.set()
    assert await checks == "late answer"
    assert await threads.call(lambda: "made", LIMIT_S) == "made"
    never.set()


@pytest.mark.asyncio
async def test_check_in_a_job_directory_that_hangs_does_not_delay_other_checks() -> None:
    """The second call for the directory that hangs begins first: the storage must not look unreachable to other jobs until its timeout."""
    never = threading.Event()
    threads = StorageThreads(3)
    with pytest.raises(JobDirectoryError):
        await threads.call(blocked_until(never), 0.05, part="stale")
    hangs = asyncio.create_task(threads.call(blocked_until(never), LIMIT_S, part="stale"))
    await asyncio.sleep(0)
    assert await threads.call(lambda: "made", LIMIT_S, part="healthy") == "made"
    assert not hangs.done()
    never.set()
    await hangs


@pytest.mark.asyncio
async def test_canceled_check_lets_the_next_call_check() -> None:
    released = threading.Event()
    threads = StorageThreads(3)
    with pytest.raises(JobDirectoryError):
        await threads.call(blocked_until(released), 0.05)
    checks = asyncio.create_task(threads.call(blocked_until(released), LIMIT_S))
    await asyncio.sleep(0)
    checks.cancel()
    await asyncio.wait({checks})
    assert await threads.call(lambda: "made", LIMIT_S) == "made"
    released.set()


def test_timeout_does_not_include_the_time_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 jobs start together: a call that waits long for its turn and is then answered has not timed out."""
    monkeypatch.setattr(StorageThreads, "_start", answer_in_virtual_time(delay_s=10))

    async def call() -> list[str]:
        threads = StorageThreads(1)
        return await asyncio.gather(*(threads.call(lambda: "made", timeout_s=15) for _ in range(10)))

    assert run_in_virtual_time(call()) == ["made"] * 10


@pytest.mark.asyncio
async def test_urgent_calls_precede_calls_that_read_the_history() -> None:
    released, order = threading.Event(), list[str]()
    threads = StorageThreads(1)
    blocks = asyncio.create_task(threads.call(blocked_until(released), LIMIT_S))
    await asyncio.sleep(0)
    calls = []
    for name in ("history 1", "history 2", "status"):
        call = threads.call(lambda name=name: order.append(name), LIMIT_S, urgent=name == "status")  # type: ignore[misc]
        calls.append(asyncio.create_task(call))
        await asyncio.sleep(0)
    released.set()
    await asyncio.gather(blocks, *calls)
    assert order == ["status", "history 1", "history 2"]


@pytest.mark.asyncio
async def test_canceled_call_gives_its_turn_to_the_next_call() -> None:
    released = threading.Event()
    threads = StorageThreads(1)
    first = asyncio.create_task(threads.call(blocked_until(released), LIMIT_S))
    await asyncio.sleep(0)
    canceled = asyncio.create_task(threads.call(lambda: "canceled", LIMIT_S))
    last = asyncio.create_task(threads.call(lambda: "made", LIMIT_S))
    await asyncio.sleep(0)
    canceled.cancel()
    first.cancel()
    released.set()
    assert await last == "made"
    assert canceled.cancelled()


@pytest.mark.asyncio
async def test_call_that_waits_for_calls_of_canceled_callers_fails() -> None:
    """A loop hangs in a call and is canceled, so no timeout of its call is left; the next loop must not wait without end."""
    released = threading.Event()
    threads = StorageThreads(1)
    canceled = asyncio.create_task(threads.call(blocked_until(released), LIMIT_S))
    await asyncio.sleep(0)
    canceled.cancel()
    with pytest.raises(JobDirectoryError, match="did not answer within"):
        await threads.call(lambda: "never made", 0.05)
    released.set()


@pytest.mark.asyncio
async def test_process_without_another_thread_loses_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system refuses a thread: the call fails, and a later call gets the thread."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = StorageThreads(1)
    with monkeypatch.context() as refusing:
        refusing.setattr(threading.Thread, "start", refuse)
        with pytest.raises(JobDirectoryError, match="no thread can be started"):
            await threads.call(lambda: "never made", LIMIT_S)
    assert await threads.call(lambda: "made", LIMIT_S) == "made"


@pytest.mark.asyncio
async def test_part_that_hangs_does_not_open_the_circuit_while_the_storage_answers_other_calls() -> None:
    released = threading.Event()
    threads = StorageThreads(2)
    hung = asyncio.create_task(threads.call(blocked_until(released), 0.5, part="stale"))
    while not hung.done():
        assert await threads.call(lambda: "made", LIMIT_S, part="healthy") == "made"
        await asyncio.sleep(0)
    with pytest.raises(JobDirectoryError, match="did not answer"):
        await hung
    calls = [threads.call(lambda: "made", LIMIT_S, part=f"healthy-{number}") for number in range(8)]
    assert await asyncio.gather(*calls) == ["made"] * 8
    released.set()


@pytest.mark.asyncio
async def test_threads_end_after_they_were_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_threads, "IDLE_TIMEOUT_S", 0.05)
    used: set[threading.Thread] = set()
    meeting = threading.Barrier(8)

    def use() -> None:
        used.add(threading.current_thread())
        meeting.wait(LIMIT_S)

    threads = StorageThreads(8)
    for _ in range(3):  # threads that ended are replaced
        await asyncio.gather(*(threads.call(use, LIMIT_S) for _ in range(8)))
        await wait_until_async(
            _holds(lambda: not any(thread.is_alive() for thread in used)), LIMIT_S, "the end of the threads"
        )


def test_threads_end_after_their_event_loop() -> None:
    """Each task of a worker has an event loop of its own: threads of earlier tasks must not remain."""
    used: list[threading.Thread] = []

    async def use() -> None:
        threads = StorageThreads.of("file:///jobs")
        assert StorageThreads.of("file:///jobs") is threads
        call = [threads.call(lambda: used.append(threading.current_thread()), LIMIT_S) for _ in range(4)]
        await asyncio.gather(*call)

    asyncio.run(use())
    gc.collect()
    wait_until(lambda: not any(thread.is_alive() for thread in used), LIMIT_S, "the end of the threads")


def _holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return condition()

    return check


def _answers(call: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        try:
            await call()
        except JobDirectoryError:
            return False
        return True

    return check
