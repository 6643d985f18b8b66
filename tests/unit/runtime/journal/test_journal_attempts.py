"""Several attempts over one journal: Airflow knows to which attempt the task belongs, and a loop of another one takes nothing over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_adaptive.runtime.journal.journal import Journal, SupersededError, attempt_of
from airflow_adaptive.testing.fakes.job_directory import FakeJobDirectory
from airflow_adaptive.testing.fakes.job_store import FakeStore
from airflow_adaptive.testing.fakes.manual_clock import START
from airflow_adaptive.testing.simulation.one_job import small_job
from tests.unit.runtime.journal.test_journal import documents

pytestmark = pytest.mark.asyncio


class Task:
    """A task of which several attempts have run; its loops share the job directory.

    Attributes:
        store: has the attempt to which the task belongs.
        directory: the job directory.
    """

    def __init__(self) -> None:
        self.store, self.directory = FakeStore(), FakeJobDirectory()

    def journal(self, attempt: str) -> Journal:
        spec = replace(small_job("job", (1, 4), {}), attempt=attempt)
        return Journal(self.directory, spec, store=self.store)

    async def run(self, attempt: str) -> Journal:
        """Airflow starts an attempt, and its loop claims the journal."""
        self.store.attempt = attempt
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


async def test_loops_of_one_attempt_do_not_read_from_airflow(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a fail-over, a thousand loops claim their journals at once."""
    read: list[str] = []
    has_later_attempt = task.store.has_later_attempt

    async def counted(attempt: str) -> bool:
        read.append(attempt)
        return await has_later_attempt(attempt)

    monkeypatch.setattr(task.store, "has_later_attempt", counted)
    await task.run("attempt-1")
    await task.run("attempt-1")
    assert read == []
    await task.run("attempt-2")
    assert read == ["attempt-2"]
