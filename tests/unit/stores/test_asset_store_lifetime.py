"""The first call of a loop, and what its store leaves in the process: a triggerer runs thousands of jobs one after the other."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from airflow_adaptive.stores import asset_store
from airflow_adaptive.stores.asset_store import AirflowJobStore
from airflow_adaptive.stores.store_access import StoreAccess
from airflow_adaptive.stores.task_xcoms import XCOM_ATTEMPT, TaskKey
from airflow_adaptive.testing.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import FakeComms
from tests.unit.stores.test_asset_store import VIEW

TASK = TaskKey(dag_id="flights", task_id="stream", run_id="r")
TIMEOUT_S = 60.0


def members(access: StoreAccess) -> tuple[int, int]:
    return access.request_reads.members, access.metrics_writes.members


async def closed_while_airflow_is_out_of_reach(airflow: FakeComms) -> None:
    clock = ManualClock()
    access = StoreAccess(clock)
    store = AirflowJobStore("departures", TASK, clock, access)
    assert members(access) == (1, 1)
    airflow.error = OSError("out of reach")
    await store.control_requests()
    await store.publish(VIEW)
    await store.publish_metrics({"metrics/10": {"step": 10, "columns": [], "points": []}})
    running = asyncio.all_tasks() - {asyncio.current_task()}
    assert len(running) == 2
    store.close()
    await asyncio.wait(running, timeout=TIMEOUT_S)
    assert [task.cancelled() for task in running] == [True, True]
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
    assert members(access) == (0, 0)


def test_closed_store_leaves_no_task_and_no_member_of_a_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(closed_while_airflow_is_out_of_reach(FakeComms.install(monkeypatch)))


@pytest.mark.parametrize(("current", "is_later"), [("t/2", True), ("t/1", False), (None, False)])
def test_attempt_in_the_xcoms_of_the_task_is_the_current_one(
    monkeypatch: pytest.MonkeyPatch, current: str | None, is_later: bool
) -> None:
    """Airflow deletes the XComs of a task that was cleared before the next attempt sets its own."""
    FakeComms.install(monkeypatch)
    if current is not None:
        TASK.push(XCOM_ATTEMPT, current)
    assert asyncio.run(has_later_attempt("t/1")) is is_later


def test_attempt_is_the_current_one_while_airflow_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeComms.install(monkeypatch).error = OSError("out of reach")
    assert not asyncio.run(has_later_attempt("t/1"))


def test_loop_does_not_wait_for_an_airflow_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(asset_store, "FIRST_READ_TIMEOUT", timedelta(milliseconds=10))
    monkeypatch.setattr(TaskKey, "pull", lambda *_: answered.wait(TIMEOUT_S))
    try:
        assert not asyncio.run(has_later_attempt("t/1"))
        assert not answered.is_set()
    finally:
        answered.set()


async def has_later_attempt(attempt: str) -> bool:
    clock = ManualClock()
    store = AirflowJobStore("departures", TASK, clock, StoreAccess(clock))
    try:
        return await store.has_later_attempt(attempt)
    finally:
        store.close()
