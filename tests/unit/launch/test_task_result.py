"""The result of a task, from the event of its control loop."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from airflow_adaptive.launch.task_result import task_result


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"status": "error", "message": "no connection"}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": True}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": False}, AirflowFailException),
        ({"outcome": "CANCELED", "timed_out": True}, AirflowTaskTimeout),
        ({"outcome": "CANCELED", "timed_out": False}, AirflowFailException),
        ({"status": "superseded", "attempt": "other run/1"}, AirflowFailException),
    ],
)
def test_an_unhappy_end_fails_the_task(event: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        task_result("departures", {"status": "finished"} | event, None)
    assert type(raised.value) is error
    assert "departures" in str(raised.value)


@pytest.mark.parametrize("outcome", ["FINISHED", "SUSPENDED"])
def test_a_happy_end_is_the_result(outcome: str) -> None:
    event = {"status": "finished", "outcome": outcome, "restarts": 1, "rescales": 2, "cause": None}
    assert task_result("departures", event, None) == {"outcome": outcome, "restarts": 1, "rescales": 2}
