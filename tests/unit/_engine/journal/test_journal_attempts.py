"""Several attempts over one journal: Airflow knows to which attempt the task belongs, and a loop of another one takes nothing over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from airflow_adaptive._engine.journal.journal import Journal, SupersededError, attempt_of
from tests.lab.fakes.job_directory import FakeJobDirectory
from tests.lab.fakes.manual_clock import START
from tests.lab.simulation.one_job import small_job
from tests.unit._engine.journal.test_journal import documents

pytestmark = pytest.mark.asyncio


class Task:
    """A task of which several attempts have run; its loops share the job directory.

    Attributes:
        attempt: the attempt to which the task belongs.
        questions: attempts that a question to Airflow was about, oldest first.
        directory: the job directory.
    """

    def __init__(self) -> None:
        self.attempt = ""
        self.questions: list[str] = []
        self.directory = FakeJobDirectory()

    def journal(self, attempt: str, meanwhile: Callable[[], Awaitable[object]] | None = None) -> Journal:
        """Return the journal of a loop of an attempt; `meanwhile` happens once, while Airflow answers."""
        pending = [] if meanwhile is None else [meanwhile]

        async def may_take_over(other: str) -> bool:
            self.questions.append(other)
            is_current = self.attempt == attempt
            while pending:
                await pending.pop()()
            return is_current

        spec = replace(small_job("job", (1, 4), {}), attempt=attempt)
        return Journal(self.directory, spec, may_take_over=may_take_over)

    async def run(self, attempt: str) -> Journal:
        """Airflow starts an attempt, and its loop claims the journal."""
        self.attempt = attempt
        journal = self.journal(attempt)
        await journal.open(START)
        return journal

    def owners(self) -> list[str]:
        return [attempt_of(document.owner) for document in documents(self.directory)]


@pytest.fixture
def task() -> Task:
    return Task()


@pytest.mark.parametrize("late", ["earlier", "attempt that never wrote"])
async def test_late_loop_of_an_earlier_attempt_claims_nothing(task: Task, late: str) -> None:
    """A triggerer was frozen while the task was cleared, and then starts the trigger of the earlier attempt."""
    await task.run("earlier")
    later = await task.run("later")
    with pytest.raises(SupersededError) as caught:
        await task.journal(late).open(START)
    assert caught.value.attempt == "later"
    assert task.owners() == ["earlier", "later"]
    await later.check(START)


async def test_earlier_attempt_continues_in_a_restored_database(task: Task) -> None:
    await task.run("earlier")
    await task.run("later")
    await task.run("earlier")
    assert task.owners() == ["earlier", "later", "earlier"]


async def test_loops_of_one_attempt_do_not_read_from_airflow(task: Task) -> None:
    """At a fail-over, a thousand loops claim their journals at once."""
    await task.run("attempt-1")
    await task.run("attempt-1")
    assert task.questions == []
    await task.run("attempt-2")
    assert task.questions == ["attempt-1"]


async def test_claim_of_a_third_attempt_during_the_answer_is_not_overlooked(task: Task) -> None:
    """Airflow answers that the task belongs to the second attempt; a third one claims the job before the answer arrives."""
    await task.run("first")
    task.attempt = "second"
    with pytest.raises(SupersededError):
        await task.journal("second", meanwhile=lambda: task.run("third")).open(START)
    assert task.owners() == ["first", "third"]
    assert task.questions == ["first", "first", "third"]


async def test_current_attempt_claims_the_job_although_the_earlier_one_changes_its_triggerer(task: Task) -> None:
    """Another loop of the earlier attempt claims the journal while Airflow answers; only the current attempt may keep it."""
    await task.run("earlier")
    task.attempt = "current"
    await task.journal("current", meanwhile=lambda: task.journal("earlier").open(START)).open(START)
    assert task.owners() == ["earlier", "earlier", "current"]
