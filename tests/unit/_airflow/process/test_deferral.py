"""What triggers share: the minimum deferral, and events that every database of Airflow can store."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_adaptive._airflow.process import deferral
from airflow_adaptive._airflow.process.deferral import MIN_DEFERRAL, event_of, with_minimum_deferral
from airflow_adaptive._core.codec import encode
from airflow_adaptive._core.scheduler.config.options import Options
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive._engine.spec import JobSpec
from airflow_adaptive.triggers import adaptive_job, job_state, spark_resources


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


UNSTORABLE = {"status": "error", "message": "row 'a\x00b' of file \udcff"}
STORED = {"status": "error", "message": "row 'a\ufffdb' of file \ufffd"}

NEVER = "2999-01-01T00:00:00+00:00"


async def fails(*_: Any) -> dict[str, Any]:
    return UNSTORABLE


def spec() -> dict[str, Any]:
    graph = JobGraph.single("job", ParallelismRange.of(1))
    return encode(
        JobSpec(graph=graph, options=Options(), directory="file:///x", script="s.py", py_files=(), attempt="r/1")
    )


TASK: dict[str, Any] = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}

TRIGGERS = {
    "run_job_loop": (
        adaptive_job,
        lambda: adaptive_job.AdaptiveJobTrigger(
            spec=spec(), connections={"spark": "c"}, base="file:///x", task_key=TASK
        ),
    ),
    "wait_for_state": (job_state, lambda: job_state.JobStateTrigger("job", ["RUNNING"], NEVER)),
    "wait_for_slots": (
        spark_resources,
        lambda: spark_resources.SparkResourcesTrigger(wanted={"graph": {}}, connections={"spark": "c"}, until=NEVER),
    ),
}


@pytest.mark.parametrize("called", TRIGGERS)
def test_text_that_postgresql_refuses_is_replaced(monkeypatch: pytest.MonkeyPatch, called: str) -> None:
    module, make = TRIGGERS[called]
    monkeypatch.setattr(module, called, fails)
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    assert asyncio.run(_first(make())).payload == STORED


def test_other_events_do_not_change() -> None:
    assert event_of({"status": "finished", "restarts": 2}).payload == {"status": "finished", "restarts": 2}


async def _first(trigger: BaseTrigger) -> TriggerEvent:
    return await anext(aiter(trigger.run()))
