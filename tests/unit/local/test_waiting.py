"""A wait returns the first true answer, and its error names the condition."""

from __future__ import annotations

import pytest

from airflow_adaptive.local.waiting import wait_until
from tests.support.waiting import wait_until_async


def test_wait_gives_the_first_true_answer() -> None:
    answers = iter([None, 0, "ready", "later"])
    assert wait_until(lambda: next(answers), 5, "an answer", interval_s=0) == "ready"


def test_condition_is_evaluated_once_even_without_time() -> None:
    assert wait_until(lambda: "ready", 0, "an answer") == "ready"


def test_error_of_a_wait_names_the_condition() -> None:
    with pytest.raises(TimeoutError, match=r"the moon: not within 0\.01 s"):
        wait_until(lambda: False, 0.01, "the moon", interval_s=0)


def test_exception_of_the_condition_ends_the_wait() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, 5, "an answer")


@pytest.mark.asyncio
async def test_async_wait_gives_the_first_true_answer() -> None:
    answers = iter([None, "ready"])

    async def condition() -> str | None:
        return next(answers)

    assert await wait_until_async(condition, 5, "an answer", interval_s=0) == "ready"


@pytest.mark.asyncio
async def test_error_of_an_async_wait_names_the_condition() -> None:
    async def condition() -> bool:
        return False

    with pytest.raises(TimeoutError, match=r"the moon: not within 0\.01 s"):
        await wait_until_async(condition, 0.01, "the moon", interval_s=0)
