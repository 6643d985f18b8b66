"""A user ends the task of a running job while Airflow does not answer: the job is canceled as soon as Airflow answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process import deferral
from airflow_adaptive._core.scheduler.snapshot import encode
from airflow_adaptive.triggers import adaptive_job
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.lab.simulation.one_job import small_job
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.airflow.published_job import cleaned_up, in_background

TASK = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.mark.parametrize(("state", "canceled"), [("failed", ["attempt-1"]), ("deferred", [])])
def test_task_that_ended_while_airflow_was_down_is_recognized_later(
    monkeypatch: pytest.MonkeyPatch, state: str, canceled: list[str]
) -> None:
    """The triggerer stops the loop and calls `cleanup`, the state of the task cannot be read, and Airflow answers later."""
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
        call = asyncio.create_task(cleaned_up(trigger))
        assert (await asyncio.wait({call}, timeout=0.5))[0] == set()
        airflow.error = None
        assert (await asyncio.wait({call}, timeout=60))[0] == {call}

    asyncio.run(kill())
    assert found == canceled


def test_end_of_a_trigger_does_not_wait_for_the_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver needs longer to stop than Airflow waits at a shutdown."""
    airflow = FakeComms.install(monkeypatch)
    airflow.task_states, airflow.xcoms = {"r": {"t": "failed"}}, {"attempt": "attempt-1"}
    trigger = AdaptiveJobTrigger(
        spec=encode(small_job("job", (1, 2), {})), connections={"spark": "c"}, base="file:///x", task_key=TASK
    )
    ended: list[str] = []

    async def kill() -> None:
        is_stopped = asyncio.Event()

        async def cancel(spec: Any, *_: Any) -> None:
            await is_stopped.wait()
            ended.append(spec.attempt)

        monkeypatch.setattr(adaptive_job, "cancel_until_ended", cancel)
        await trigger.cleanup()
        is_stopped.set()
        await asyncio.wait(in_background(), timeout=60)

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
        await cleaned_up(trigger)
        assert not in_background(), "no background task tries again"

    asyncio.run(kill())
    (record,) = [record for record in caplog.records if record.name == adaptive_job.__name__]
    assert record.getMessage().startswith(
        "The job cannot be canceled, and its driver may still run. Kill the driver in the web UI of its master."
    )
    assert "install the same version of airflow-adaptive in all Airflow components" in record.getMessage()


def test_trigger_that_has_fired_leaves_the_job_to_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    FakeComms.install(monkeypatch)
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    spec = encode(small_job("job", (1, 2), {})) | {"graph": None}
    trigger = AdaptiveJobTrigger(spec=spec, connections={"spark": "c"}, base="file:///x", task_key=TASK)

    async def run() -> None:
        assert [event.payload["status"] async for event in trigger.run()] == ["error"]
        await cleaned_up(trigger)

    asyncio.run(run())
    assert not [record for record in caplog.records if record.name == adaptive_job.__name__]
