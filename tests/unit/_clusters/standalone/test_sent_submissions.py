"""Repeated submissions, when the outcome of the first request is known, unknown, or certain not to exist."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from airflow_adaptive._clusters.standalone.client import SentSubmissions
from airflow_adaptive._core.ports import (
    ClusterUnreachableError,
    DriverSubmission,
    NotSubmittedError,
    SubmissionRefusedError,
)

SUBMISSION = DriverSubmission(name="departures", epoch=1, nonce="n", script="departures.py")

pytestmark = pytest.mark.asyncio


class Master:
    """Creates a driver for each request. The requests fail with `failure`, None for no failure."""

    def __init__(self) -> None:
        self.sent = SentSubmissions()
        self.requests = 0
        self.failure: BaseException | None = None

    async def submit(self, submission: DriverSubmission = SUBMISSION) -> str:
        return await self.sent.send_once(submission, self.create)

    async def create(self) -> str:
        self.requests += 1
        request = self.requests
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return f"driver-{request}"


@pytest.mark.parametrize("failure", [ClusterUnreachableError("no answer"), asyncio.CancelledError()])
async def test_a_submission_of_unknown_outcome_is_not_sent_again(failure: BaseException) -> None:
    master = Master()
    master.failure = failure
    with pytest.raises(type(failure)):
        await master.submit()
    master.failure = None
    with pytest.raises(
        ClusterUnreachableError, match="driver of 'departures' with epoch 1 was submitted before"
    ) as caught:
        await master.submit()
    assert not isinstance(caught.value, NotSubmittedError)
    assert master.requests == 1


@pytest.mark.parametrize("failure", [NotSubmittedError("refused connection"), SubmissionRefusedError("no cores")])
async def test_a_submission_that_no_master_accepted_is_sent_again(failure: Exception) -> None:
    master = Master()
    master.failure = failure
    with pytest.raises(type(failure)):
        await master.submit()
    assert not master.sent.is_repeated(SUBMISSION)
    master.failure = None
    assert await master.submit() == "driver-2"


async def test_a_submission_is_not_sent_during_the_first_request() -> None:
    master = Master()
    first, second = await asyncio.gather(master.submit(), master.submit(), return_exceptions=True)
    assert first == "driver-1"
    assert isinstance(second, ClusterUnreachableError)


async def test_a_late_refusal_does_not_forget_the_submission_of_the_next_epoch() -> None:
    master, following = Master(), replace(SUBMISSION, epoch=2)

    async def refuse() -> str:
        assert await master.submit(following) == "driver-1"
        raise SubmissionRefusedError("no cores")

    with pytest.raises(SubmissionRefusedError):
        await master.sent.send_once(SUBMISSION, refuse)
    assert await master.submit(following) == "driver-1"
