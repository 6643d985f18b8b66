"""When the wait for locality is dropped and when it is restored, without Spark."""

from __future__ import annotations

import pytest

from airflow_adaptive._core.protocol.documents import ExecutorReport
from airflow_adaptive.job.control.interfaces import StatefulRun
from airflow_adaptive.job.executors import BALANCE_TIMEOUT_S, MAX_BATCHES, LocalityBalancer, is_balanced

PILED = {"0": 12}
EVEN = {"0": 5, "1": 4, "2": 3}


class Query:
    """A stateful query as `Placement` shows it, and the balancer that watches it."""

    def __init__(self, *executors: str) -> None:
        self.executors = executors
        self.run_id = "first"
        self.batch_id = 0
        self.stages: list[dict[str, int]] = []
        self.time = 0.0
        self.checks = 0
        self.waits = True
        self.history: list[str] = []
        self.done: list[bool] = []
        self.balancer = LocalityBalancer(self, clock=lambda: self.time)

    def commits(self, *stages: dict[str, int]) -> None:
        """One more batch, whose stateful stages ran there."""
        self.batch_id += 1
        self.stages = list(stages)
        self.check()

    def check(self) -> None:
        executors = [ExecutorReport(executor_id=name, cores=1) for name in self.executors]
        run = StatefulRun(run_id=self.run_id, batch_id=self.batch_id, state_partitions=12)
        self.done.append(self.balancer.rebalance(executors, run))

    def last_batch(self, run: StatefulRun) -> list[dict[str, int]]:
        assert (run.run_id, run.batch_id) == (self.run_id, self.batch_id)
        self.checks += 1
        return self.stages

    def drop_locality_wait(self) -> None:
        assert self.waits
        self.waits = False
        self.history.append(f"dropped after {self.batch_id}")

    def restore_locality_wait(self) -> None:
        assert not self.waits
        self.waits = True
        self.history.append(f"restored after {self.batch_id}")


@pytest.fixture
def balanced() -> Query:
    """A query whose tasks lie evenly on three executors."""
    query = Query("0", "1", "2")
    query.commits(EVEN)
    return query


def test_the_wait_stays_when_the_first_batch_is_balanced(balanced: Query):
    assert balanced.history == []


def test_the_wait_is_dropped_until_the_tasks_are_balanced():
    query = Query("0", "1", "2")
    for tasks in (PILED, {"0": 8, "1": 2, "2": 2}, EVEN, EVEN):
        query.commits(tasks)
    assert query.history == ["dropped after 1", "restored after 3"]


def test_rebalance_returns_whether_the_balancing_is_complete():
    query = Query("0", "1", "2")
    query.commits()
    for tasks in (PILED, EVEN, EVEN):
        query.commits(tasks)
    query.executors = ("0", "1", "2", "3")
    query.check()
    query.check()
    assert query.done == [False, False, True, True, False, False]


def test_rebalance_is_complete_after_the_maximum_number_of_batches():
    query = Query("0", "1", "2")
    for _ in range(MAX_BATCHES + 1):
        query.commits(PILED)
    assert query.done == [*[False] * MAX_BATCHES, True]


def test_an_added_executor_drops_the_wait_immediately(balanced: Query):
    balanced.executors = ("0", "1", "2", "3")
    balanced.stages = [{"0": 6, "1": 3, "2": 3}]
    balanced.check()
    assert balanced.history == ["dropped after 1"]
    balanced.commits({"0": 3, "1": 3, "2": 3, "3": 3})
    assert balanced.history == ["dropped after 1", "restored after 2"]


def test_a_lost_executor_drops_the_wait_only_after_the_next_batch(balanced: Query):
    balanced.executors = ("0", "1")
    balanced.check()
    balanced.commits({"0": 5, "1": 4, "2": 3})
    assert balanced.history == []
    balanced.commits({"0": 9, "1": 3})
    assert balanced.history == ["dropped after 3"]


def test_the_wait_is_restored_when_an_added_executor_is_lost(balanced: Query):
    balanced.executors = ("0", "1", "2", "3")
    balanced.commits(EVEN)
    balanced.executors = ("0", "1", "2")
    balanced.commits(EVEN)
    assert balanced.history == ["dropped after 2", "restored after 3"]


def test_tasks_do_not_wait_for_released_executors(balanced: Query):
    balanced.balancer.ignore_locality()
    balanced.executors = ("0", "1")
    balanced.check()
    assert balanced.history == ["dropped after 1"]
    balanced.commits({"0": 6, "1": 6})
    assert balanced.history == ["dropped after 1", "restored after 2"]


def test_batches_before_a_release_do_not_count_after_it():
    query = Query("0", "1", "2")
    for _ in range(MAX_BATCHES):
        query.commits(PILED)
    query.balancer.ignore_locality()
    query.executors = ("0", "1")
    query.commits(PILED)
    query.commits({"0": 6, "1": 6})
    assert query.history == ["dropped after 1", f"restored after {MAX_BATCHES + 2}"]


def test_every_stateful_stage_has_to_be_balanced():
    query = Query("0", "1", "2")
    query.commits(EVEN, PILED)
    assert query.history == ["dropped after 1"]


def test_a_new_run_is_checked_again(balanced: Query):
    balanced.run_id = "second"
    balanced.commits(PILED)
    assert balanced.history == ["dropped after 2"]


def test_a_balanced_query_is_not_checked_again(balanced: Query):
    balanced.commits(PILED)
    assert (balanced.checks, balanced.history) == (1, [])


def test_each_batch_is_checked_once():
    query = Query("0", "1", "2")
    query.commits(PILED)
    query.check()
    assert query.checks == 1


def test_a_batch_without_known_placement_changes_nothing():
    query = Query("0", "1", "2")
    query.commits()
    assert query.history == []
    query.commits(PILED)
    assert query.history == ["dropped after 2"]


def test_the_wait_is_restored_when_the_tasks_do_not_spread():
    query = Query("0", "1", "2")
    for _ in range(MAX_BATCHES + 3):
        query.commits(PILED)
    assert query.history == ["dropped after 1", f"restored after {1 + MAX_BATCHES}"]


def test_the_wait_is_restored_even_when_executors_are_added_repeatedly():
    query = Query("0", "1", "2")
    for number in range(MAX_BATCHES):
        query.commits(PILED)
        query.executors = (*query.executors, str(3 + number))
    query.commits(PILED)
    assert query.history == ["dropped after 1", f"restored after {1 + MAX_BATCHES}"]


def test_the_wait_is_restored_when_no_batch_ends_and_dropped_again_when_one_shows_the_need():
    query = Query("0", "1", "2")
    query.commits(PILED)
    query.time += BALANCE_TIMEOUT_S
    query.check()
    assert query.history == ["dropped after 1", "restored after 1"]
    query.commits(PILED)
    query.commits(EVEN)
    assert query.history[2:] == ["dropped after 2", "restored after 3"]


def test_timeouts_do_not_extend_the_balancing_forever():
    query = Query("0", "1", "2")
    for _ in range(MAX_BATCHES + 3):
        query.commits(PILED)
        query.time += BALANCE_TIMEOUT_S
        query.check()
    assert [step for step in query.history if "dropped" in step] == [
        f"dropped after {batch}" for batch in range(1, MAX_BATCHES + 1)
    ]
    assert query.waits


def test_the_wait_is_restored_once_when_the_query_ends():
    query = Query("0", "1", "2")
    query.balancer.restore()
    query.commits(PILED)
    query.balancer.restore()
    query.balancer.restore()
    assert query.history == ["dropped after 1", "restored after 1"]


@pytest.mark.parametrize(
    ("tasks", "slots", "even"),
    [
        ((4, 4, 4), (1, 1, 1), True),
        ((5, 4, 3), (1, 1, 1), True),
        ((6, 3, 3), (1, 1, 1), False),
        ((4, 3, 2), (1, 1, 1), True),
        ((5, 2, 2), (1, 1, 1), False),
        ((9, 6, 6), (1, 1, 1), True),
        ((10, 6, 5), (1, 1, 1), False),
        ((12, 0, 0), (1, 1, 1), False),
        ((2, 1, 1), (1, 1, 1), True),  # four tasks take two rounds, however they lie
        ((2, 2, 0), (1, 1, 1), True),
        ((3, 1, 0), (1, 1, 1), False),
        ((1, 1, 0), (1, 1, 1), True),
        ((2, 0, 0), (1, 1, 1), False),
        ((3, 1), (2, 2), False),  # four slots, but one of three tasks has to wait for another
        ((4, 2), (2, 1), True),
        ((2, 4), (2, 1), False),
        ((0, 0), (1, 1), True),
        ((), (), True),
    ],
)
def test_tasks_are_balanced_when_no_executor_needs_many_more_rounds(tasks, slots, even):
    names = [str(number) for number in range(len(slots))]
    assert is_balanced(dict(zip(names, tasks, strict=True)), dict(zip(names, slots, strict=True))) is even
