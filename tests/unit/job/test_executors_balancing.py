"""When the wait for locality is dropped and when it is restored, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


SPREAD = {"0": 3, "1": 3, "2": 3, "3": 3}
TWO = {"0": 6, "1": 6}
THREE_EXECUTORS, FOUR_EXECUTORS, TWO_EXECUTORS = ("0", "1", "2"), ("0", "1", "2", "3"), ("0", "1")


def on(*executors: str) -> Callable[[Query], None]:
    """Other executors are registered."""
    return lambda query: setattr(query, "executors", executors)


def commits(*stages: dict[str, int]) -> Callable[[Query], None]:
    return lambda query: query.commits(*stages)


def times_out(query: Query) -> None:
    query.time += BALANCE_TIMEOUT_S
    query.check()


def another_run(query: Query) -> None:
    query.run_id = "second"


def releases(query: Query) -> None:
    query.balancer.ignore_locality()


def ends(query: Query) -> None:
    query.balancer.restore()


@pytest.mark.parametrize(
    ("steps", "history"),
    [
        pytest.param([commits(EVEN)], [], id="the first batch is balanced"),
        pytest.param([commits(EVEN), commits(PILED)], [], id="a balanced query is not checked again"),
        pytest.param(
            [commits(PILED), commits({"0": 8, "1": 2, "2": 2}), commits(EVEN), commits(EVEN)],
            ["dropped after 1", "restored after 3"],
            id="until the tasks are balanced",
        ),
        pytest.param(
            [commits({"0": 6, "1": 3, "2": 3}), on(*FOUR_EXECUTORS), Query.check, commits(SPREAD)],
            ["dropped after 1", "restored after 2"],
            id="an added executor drops the wait immediately",
        ),
        pytest.param(
            [commits(EVEN), on(*TWO_EXECUTORS), Query.check, commits(EVEN), commits({"0": 9, "1": 3})],
            ["dropped after 3"],
            id="a lost executor drops the wait only after the next batch",
        ),
        pytest.param(
            [commits(EVEN), on(*FOUR_EXECUTORS), commits(EVEN), on(*THREE_EXECUTORS), commits(EVEN)],
            ["dropped after 2", "restored after 3"],
            id="an added executor is lost",
        ),
        pytest.param(
            [commits(EVEN), releases, on(*TWO_EXECUTORS), Query.check, commits(TWO)],
            ["dropped after 1", "restored after 2"],
            id="tasks do not wait for released executors",
        ),
        pytest.param(
            [*[commits(PILED)] * MAX_BATCHES, releases, on(*TWO_EXECUTORS), commits(PILED), commits(TWO)],
            ["dropped after 1", f"restored after {MAX_BATCHES + 2}"],
            id="batches before a release do not count after it",
        ),
        pytest.param([commits(EVEN, PILED)], ["dropped after 1"], id="every stateful stage has to be balanced"),
        pytest.param([commits(EVEN), another_run, commits(PILED)], ["dropped after 2"], id="a new run"),
        pytest.param([commits(), commits(PILED)], ["dropped after 2"], id="a batch without known placement"),
        pytest.param(
            [commits(PILED)] * (MAX_BATCHES + 3),
            ["dropped after 1", f"restored after {1 + MAX_BATCHES}"],
            id="the tasks do not spread",
        ),
        pytest.param(
            [
                *(step for number in range(MAX_BATCHES) for step in (commits(PILED), on(*map(str, range(4 + number))))),
                commits(PILED),
            ],
            ["dropped after 1", f"restored after {1 + MAX_BATCHES}"],
            id="executors are added repeatedly",
        ),
        pytest.param(
            [commits(PILED), times_out, commits(PILED), commits(EVEN)],
            ["dropped after 1", "restored after 1", "dropped after 2", "restored after 3"],
            id="no batch ends, and the next one shows the need",
        ),
        pytest.param(
            [commits(PILED), times_out] * (MAX_BATCHES + 3),
            [f"{step} after {batch}" for batch in range(1, MAX_BATCHES + 1) for step in ("dropped", "restored")],
            id="timeouts do not extend the balancing forever",
        ),
        pytest.param(
            [ends, commits(PILED), ends, ends], ["dropped after 1", "restored after 1"], id="once when the query ends"
        ),
    ],
)
def test_the_wait_is_dropped_while_tasks_are_piled_and_then_restored(
    steps: Sequence[Callable[[Query], None]], history: list[str]
):
    query = Query(*THREE_EXECUTORS)
    for step in steps:
        step(query)
    assert query.history == history


def test_rebalance_returns_whether_the_balancing_is_complete():
    query = Query(*THREE_EXECUTORS)
    for step in (
        commits(),
        commits(PILED),
        commits(EVEN),
        commits(EVEN),
        on(*FOUR_EXECUTORS),
        Query.check,
        Query.check,
    ):
        step(query)
    assert query.done == [False, False, True, True, False, False]


def test_rebalance_is_complete_after_the_maximum_number_of_batches():
    query = Query(*THREE_EXECUTORS)
    for _ in range(MAX_BATCHES + 1):
        query.commits(PILED)
    assert query.done == [*[False] * MAX_BATCHES, True]


def test_each_batch_is_checked_once():
    query = Query(*THREE_EXECUTORS)
    for step in (commits(PILED), Query.check, commits(EVEN), commits(EVEN)):
        step(query)
    assert query.checks == 2


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
