"""A deferral lasts as long as Airflow needs it to."""

import asyncio
from datetime import timedelta

import pytest

from airflow_adaptive._airflow.process.deferral import MIN_DEFERRAL, with_minimum_deferral
from airflow_adaptive._engine.clock import SystemClock


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """The duration of each sleep, which returns at once."""
    slept: list[timedelta] = []

    async def sleep(clock: SystemClock, seconds: float) -> None:
        slept.append(timedelta(seconds=seconds))

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    return slept


async def result() -> str:
    return "found"


def test_work_that_is_done_at_once_is_reported_when_the_task_may_go_on(slept: list[timedelta]) -> None:
    assert asyncio.run(with_minimum_deferral(result())) == "found"
    assert MIN_DEFERRAL - timedelta(seconds=5) < slept[0] <= MIN_DEFERRAL


def test_work_that_took_long_is_reported_at_once(slept: list[timedelta], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_adaptive._airflow.process.deferral.MIN_DEFERRAL", timedelta(0))
    assert asyncio.run(with_minimum_deferral(result())) == "found"
    assert slept == [timedelta(0)]


def test_work_that_fails_is_not_kept_back(slept: list[timedelta]) -> None:
    async def fail() -> None:
        raise ValueError("no such job")

    with pytest.raises(ValueError, match="no such job"):
        asyncio.run(with_minimum_deferral(fail()))
    assert slept == []
