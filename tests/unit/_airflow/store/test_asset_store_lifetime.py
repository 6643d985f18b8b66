"""The first call of a loop, and what its store leaves in the process: a triggerer runs thousands of jobs one after the other."""

from __future__ import annotations

import asyncio

import pytest

from airflow_adaptive._airflow.store.asset_store import AirflowJobStore
from airflow_adaptive._airflow.store.store_access import StoreAccess
from airflow_adaptive._core.view import TaskKey
from tests.lab.fakes.manual_clock import ManualClock
from tests.support.airflow.fake_supervisor import FakeComms
from tests.unit._airflow.store.test_asset_store import VIEW

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
