"""A user ends the task of a running job while Airflow does not answer: the job is canceled as soon as Airflow answers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError

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

    monkeypatch.setattr(adaptive_job, "cancel_job", cancel)
    spec = encode(small_job("job", (1, 2), {}))
    trigger = AdaptiveJobTrigger(spec=spec, conn_id="c", base="file:///x", task_key=TASK)

    async def kill() -> None:
        with pytest.raises(AirflowRuntimeError):
            await trigger.on_kill()
        airflow.error = None
        await asyncio.wait({*deferral._tasks}, timeout=60)

    asyncio.run(kill())
    assert found == canceled
