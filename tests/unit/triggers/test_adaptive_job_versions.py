"""A trigger that another version of airflow-adaptive has written to the database of Airflow."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.process import deferral
from airflow_adaptive._core.scheduler.snapshot import encode
from airflow_adaptive.triggers.adaptive_job import AdaptiveJobTrigger
from tests.lab.simulation.one_job import small_job

SPEC: dict[str, Any] = encode(small_job("job", (1, 2), {}))
TASK = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1}


@pytest.mark.parametrize("change", [{"graph": None}, {"attempt": 7}, {"options": {"poll_interval": "soon"}}])
def test_trigger_whose_spec_cannot_be_read_ends_with_an_error_that_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """A task defers, another version is installed that cannot read the spec of the trigger, and the triggerer starts the trigger."""
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))

    async def fire() -> dict[str, Any]:
        trigger = AdaptiveJobTrigger(spec=SPEC | change, connections={"spark": "c"}, base="file:///x", task_key=TASK)
        payload: dict[str, Any] = (await anext(aiter(trigger.run()))).payload
        return payload

    event = asyncio.run(fire())
    assert (event["status"], event["driver"]) == ("error", None)
    assert (
        "install the same version of airflow-adaptive in all Airflow components, and clear the task" in event["message"]
    )
