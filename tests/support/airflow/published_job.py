"""A job that Airflow knows, and the deferral of tasks that wait for the job."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process import deferral, job_control
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive.triggers import job_state as job_state_triggers
from tests.lab.scenario import Scenario
from tests.support.airflow.airflow_versions import TaskDeferred, deserialize, serialize
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_documents import executing, published

SUMMARY: dict[str, Any] = {
    **published(executing())["summary"],
    "since": "2026-01-01T00:00:00+00:00",
    "restarts": 3,
    "rescales": 2,
    "attempt": "d/t/r/1",
}


class TaskInstance:
    """The task that controls the job."""

    dag_id, task_id, run_id = "night", "shrink", "r"
    map_index = -1


CONTEXT: Any = {"ti": TaskInstance()}


def publish_job(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    """Install an Airflow with a job that executes with bounds of 1 and 4; triggers poll and fire without a delay."""
    for module in (job_control, job_state_triggers):
        monkeypatch.setattr(module, "POLL_INTERVAL", timedelta(0))
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))
    fake = FakeComms.install(monkeypatch)
    job = Scenario()
    job.given_executing(2)
    fake.asset_states = {
        "attempt": SUMMARY["attempt"],
        "summary": dict(SUMMARY),
        "scheduler": json.loads(json.dumps(to_json(job.state))),
    }
    return fake


def ended(outcome: str) -> dict[str, Any]:
    return SUMMARY | {"state": "Finished", "outcome": outcome, "since": "2026-01-02T00:00:00+00:00"}


def deferred_to(call: Any) -> Any:
    with pytest.raises(TaskDeferred) as deferred:
        call()
    return deferred.value.trigger


def fire(trigger: Any) -> Any:
    path, arguments = trigger.serialize()
    restored: Any = deserialize(serialize(json.loads(json.dumps(arguments))))
    assert type(trigger)(**restored).serialize() == (path, arguments)
    return asyncio.run(anext(trigger.run())).payload


async def cleaned_up(trigger: Any) -> None:
    """Airflow ends a trigger, and what the trigger leaves in the background ends, too."""
    await trigger.cleanup()
    await asyncio.gather(*in_background())


def in_background() -> set[asyncio.Task[None]]:
    """What triggers of this event loop have left in the background. A simulated process that was killed leaves tasks of another loop."""
    return {task for task in deferral._tasks if task.get_loop() is asyncio.get_running_loop()}
