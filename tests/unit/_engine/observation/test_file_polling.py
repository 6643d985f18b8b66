"""The cycles in which a loop reads the files of its job."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from airflow_adaptive._core.scheduler.events import BatchCommitted, Event, SlotsChanged
from airflow_adaptive._engine.rate_limit import EARLY_TIME, FilePolling, RateLimiter
from tests.lab.fakes.manual_clock import START, ManualClock
from tests.lab.scenario import Scenario

SECOND = timedelta(seconds=1)


def reads(job: Scenario, *events: Event, others: int = 1000) -> bool:
    """Whether files are read a second after a cycle with these events, in a process with many other jobs."""
    clock = ManualClock()
    limiter = RateLimiter(10, clock)
    for _ in range(others):
        limiter.join()
    polling = FilePolling(limiter)
    polling.begin_cycle(SECOND)
    polling.end_cycle(job.state, events)
    asyncio.run(clock.sleep(1))
    polling.begin_cycle(SECOND)
    return polling.is_due


def test_files_of_a_job_that_runs_as_planned_are_read_in_turn() -> None:
    running = Scenario().given_executing(2)
    assert not reads(running)
    assert not reads(running, BatchCommitted(at=START, epoch=1))
    assert reads(running, others=5)


def test_files_of_a_job_with_a_change_in_progress_are_read_at_once() -> None:
    assert reads(Scenario().given_deploying(2))
    assert reads(Scenario().given_executing(2).when_canceled())
    assert reads(Scenario().given_executing(2), SlotsChanged(at=START, offers=()))


def test_files_of_a_job_whose_rescale_waits_for_a_batch_are_read_at_once() -> None:
    assert reads(Scenario().given_executing(2).when_slots(held=2, free=1))


def early_cycles(job: Scenario, *events: Event, jobs: int = 1, seconds: int = 60) -> int:
    """Early cycles of jobs that request one each 200 ms, after an event of each of them at the same time."""
    clock = ManualClock()
    limiter = RateLimiter(100, clock)
    pollings = [FilePolling(limiter) for _ in range(jobs)]
    for polling in pollings:
        polling.end_cycle(job.state, events)
    early = 0
    for _ in range(5 * seconds):
        asyncio.run(clock.sleep(0.2))
        for polling in pollings:
            polling.end_cycle(job.state, ())
            early += polling.is_early
    return early


def test_cycles_after_an_event_are_early_for_a_while_if_another_is_expected() -> None:
    waiting = Scenario().given_executing(2).when_slots(held=2, free=1)
    assert 0 < early_cycles(waiting, SlotsChanged(at=START, offers=())) <= EARLY_TIME / timedelta(milliseconds=200)
    assert early_cycles(Scenario().given_waiting()) > 0
    assert early_cycles(Scenario().given_executing(2), SlotsChanged(at=START, offers=())) == 0


def test_all_jobs_of_a_process_share_a_few_early_cycles() -> None:
    waiting = Scenario().given_executing(2).when_slots(held=2, free=1)
    assert early_cycles(waiting, jobs=1000, seconds=4) <= 25 * 5


def test_files_of_jobs_that_wait_for_slots_are_read_in_turn() -> None:
    assert not reads(Scenario().given_waiting())
