"""A user ends the task of a running job while Airflow does not answer: the job is canceled as soon as Airflow answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive.launch import deferral
from airflow_adaptive.scheduler.snapshot import encode
from airflow_adaptive.testing.simulation.one_job import small_job
from airflow_adaptive.triggers import adaptive_job
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error

TASK = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.mark.parametrize(("state", "canceled"), [("failed", ["attempt-1"]), ("deferred", [])])
def test_task_that_ended_while_airflow_was_down_is_recognized_later(
    monkeypatch: pytest.MonkeyPatch, state: str, canceled: list[str]
) -> None:
    """The triggerer stops the loop and calls `on_kill`, the state of the task cannot be read, and Airflow answers later."""
    airflow = FakeComms.install(monkeypatch)
    airflow.task_states, airflow.xcoms, airflow.error = (
        {"r": {"t": state}},
        {"attempt": "attempt-1"},
        api_server_error(),
    )
    monkeypatch.setattr(adaptive_job, "HANDOVER_POLL_INTERVAL", timedelta(0))
    found: list[str] = []

    async def cancel(spec: Any, *_: Any) -> None:
        found.append(spec.attempt)

    monkeypatch.setattr(adaptive_job, "cancel_until_ended", cancel)
    spec = encode(small_job("job", (1, 2), {}))
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def kill() -> None:
        call = asyncio.create_task(trigger.on_kill())
        assert (await asyncio.wait({call}, timeout=0.5))[0] == set()
        airflow.error = None
        assert (await asyncio.wait({call}, timeout=60))[0] == {call}

    asyncio.run(kill())
    assert found == canceled


def test_cancellation_continues_when_airflow_cancels_the_call_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver needs longer to stop than Airflow waits for `on_kill`."""
    airflow = FakeComms.install(monkeypatch)
    airflow.task_states, airflow.xcoms = {"r": {"t": "failed"}}, {"attempt": "attempt-1"}
    trigger = AdaptiveJobTrigger(
        spec=encode(small_job("job", (1, 2), {})), connections={"spark": "c"}, base="file:///x", task_key=TASK
    )
    ended: list[str] = []

    async def kill() -> None:
        has_begun, is_stopped = asyncio.Event(), asyncio.Event()

        async def cancel(spec: Any, *_: Any) -> None:
            has_begun.set()
            await is_stopped.wait()
            ended.append(spec.attempt)

        monkeypatch.setattr(adaptive_job, "cancel_until_ended", cancel)
        call = asyncio.create_task(trigger.on_kill())
        await asyncio.wait_for(has_begun.wait(), 60)
        call.cancel()
        await asyncio.wait({call}, timeout=60)
        assert call.cancelled()
        is_stopped.set()
        await asyncio.wait({asyncio.create_task(asyncio.sleep(0)), *deferral._tasks}, timeout=60)

    asyncio.run(kill())
    assert ended == ["attempt-1"]


def test_killed_trigger_of_another_version_reports_once_that_its_driver_may_still_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A task defers, another version is installed that cannot read the spec of the trigger, and a user ends the task."""
    FakeComms.install(monkeypatch)
    spec = encode(small_job("job", (1, 2), {})) | {"graph": None}
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def kill() -> None:
        await trigger.on_kill()
        await asyncio.sleep(0)
        assert not deferral._tasks, "no background task tries again"

    asyncio.run(kill())
    (record,) = [record for record in caplog.records if record.name == adaptive_job.__name__]
    assert record.getMessage().startswith(
        "The job cannot be canceled, and its driver may still run. Kill the driver in the web UI of its master."
    )
    assert "install the same version of airflow-adaptive in all Airflow components" in record.getMessage()
