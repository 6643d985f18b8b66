"""How often loops look when there are few of them, and when there are many."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from airflow_adaptive.runtime.observation.file_polling import FilePolling
from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.scheduler.events import BatchCommitted, Event, SlotsChanged
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.scenario import Scenario

SECOND = timedelta(seconds=1)


def looks(members: int, per_second: float, seconds: int) -> Counter[int]:
    """How often each of so many members looks, all of them asking every second."""
    limiter = RateLimiter(per_second)
    turns = [limiter.join() for _ in range(members)]
    counted: Counter[int] = Counter()
    for second in range(seconds):
        for number, turn in enumerate(turns):
            counted[number] += turn.due(START + second * SECOND, SECOND)
    return counted


def test_few_look_as_often_as_they_like() -> None:
    assert set(looks(members=10, per_second=10, seconds=20).values()) == {20}


def test_many_look_in_turn_and_as_often_as_each_other() -> None:
    counted = looks(members=100, per_second=10, seconds=101)
    assert set(counted.values()) <= {10, 11}
    assert sum(counted.values()) <= 100 + 10 * 101


def test_first_look_never_waits() -> None:
    assert sum(looks(members=100, per_second=10, seconds=1).values()) == 100


def test_look_that_can_not_wait_is_made_at_the_cost_of_the_others() -> None:
    limiter = RateLimiter(10)
    urgent, other = limiter.join(), limiter.join()
    assert urgent.due(START, SECOND)
    assert other.due(START, SECOND)
    assert all(urgent.due(START + SECOND, SECOND, urgent=True) for _ in range(20))
    assert not other.due(START + SECOND, SECOND)
    assert other.due(START + 3 * SECOND, SECOND)


def test_round_gets_shorter_when_members_leave() -> None:
    limiter = RateLimiter(10)
    turns = [limiter.join() for _ in range(100)]
    assert limiter.round == 10 * SECOND
    for turn in turns[:50]:
        turn.unregister()
    assert limiter.round == 5 * SECOND


# ---- attention ------------------------------------------------------------------------------------------------------


def reads(job: Scenario, *seen: Event, others: int = 1000) -> bool:
    """Whether files are read a second after a turn in which this was seen, with many other jobs around."""
    limiter = RateLimiter(10)
    for _ in range(others):
        limiter.join()
    polling = FilePolling(limiter)
    polling.begin_cycle(START, SECOND)
    polling.end_cycle(job.state, seen)
    polling.begin_cycle(START + SECOND, SECOND)
    return polling.is_due


def test_files_of_a_job_that_runs_as_planned_are_read_in_turn() -> None:
    running = Scenario().given_executing(2)
    assert not reads(running)
    assert not reads(running, BatchCommitted(at=START, epoch=1))
    assert reads(running, others=5)


def test_files_of_a_job_with_something_under_way_are_read_at_once() -> None:
    assert reads(Scenario().given_deploying(2))
    assert reads(Scenario().given_executing(2).when_canceled())
    assert reads(Scenario().given_executing(2), SlotsChanged(at=START, offers=()))


def test_files_of_a_job_whose_rescale_waits_for_a_batch_are_read_at_once() -> None:
    assert reads(Scenario().given_executing(2).when_slots(held=2, free=1))


def test_job_that_waits_for_slots_has_no_driver_whose_report_is_awaited() -> None:
    assert not reads(Scenario().given_waiting())
