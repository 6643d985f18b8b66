"""Several attempts over one journal: the latest attempt has the job, also if a trigger of an earlier attempt starts late."""

from __future__ import annotations

import pytest

from airflow_adaptive.runtime.journal.journal import MAX_EARLIER_ATTEMPTS, SupersededError, attempt_of
from airflow_adaptive.scheduler.timeline import Reason, ReasonCode
from airflow_adaptive.testing.fakes.job_directory import FakeJobDirectory
from airflow_adaptive.testing.fakes.manual_clock import START
from tests.unit.runtime.journal.test_journal import documents, journal

pytestmark = pytest.mark.asyncio


async def test_loop_of_an_earlier_attempt_claims_nothing() -> None:
    """A triggerer was frozen while the task was cleared, and then starts the trigger of the earlier attempt."""
    directory = FakeJobDirectory()
    await journal(directory, "earlier").open(START)
    later = journal(directory, "later")
    state = await later.open(START)
    with pytest.raises(SupersededError) as caught:
        await journal(directory, "earlier").open(START)
    assert caught.value.attempt == "later"
    assert [attempt_of(it.owner) for it in documents(directory)] == ["earlier", "later"]
    later.add_log_entry(Reason(ReasonCode.POLICY_FAILED, "the later attempt continues"))
    await later.write_log_entries(state, START)


async def test_many_later_loops_do_not_make_an_attempt_the_latest_again() -> None:
    directory = FakeJobDirectory()
    await journal(directory, "earlier").open(START)
    for _ in range(30):
        await journal(directory, "later").open(START)
    assert documents(directory)[-1].earlier_attempts == ("earlier",)
    with pytest.raises(SupersededError):
        await journal(directory, "earlier").open(START)


async def test_document_names_a_limited_number_of_earlier_attempts() -> None:
    directory = FakeJobDirectory()
    for number in range(MAX_EARLIER_ATTEMPTS + 3):
        await journal(directory, f"attempt-{number}").open(START)
    earlier = documents(directory)[-1].earlier_attempts
    assert len(earlier) == MAX_EARLIER_ATTEMPTS
    assert earlier[:2] == (f"attempt-{MAX_EARLIER_ATTEMPTS + 1}", f"attempt-{MAX_EARLIER_ATTEMPTS}")
