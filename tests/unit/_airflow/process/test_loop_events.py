"""The end of a loop decides the result of the task that it resumes."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._airflow.internals import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
)
from airflow_adaptive._airflow.process.loop_events import OnSuspend, finished_event, task_result
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.state import Finished
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario


@pytest.mark.parametrize(
    ("failure", "options", "recoverable"),
    [
        (HOPELESS, {}, False),
        (TRANSIENT, {"restart_strategy": "none"}, True),
        (TRANSIENT, {"non_recoverable_failures": "TASK_FAILED"}, False),
        (HOPELESS, {"recoverable_failures": "SyntaxError", "restart_strategy": "none"}, True),
    ],
)
def test_end_of_a_failed_job_reports_its_cause_and_whether_retries_help(
    failure: Failure, options: dict[str, Any], recoverable: bool
) -> None:
    job = Scenario(**options).given_executing(2).when_query_failed(failure)
    job.when_query_failed(Failure(error_class="OTHER", message="")).when_driver_ended()
    assert isinstance(job.state.current, Finished)
    event = finished_event(job.state, job.state.current, None, "the cluster does not answer")
    assert event["cause"] == f"{failure.summary} (and 1 concurrent failure); the cluster does not answer"
    assert event["recoverable"] is recoverable


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"status": "error", "message": "no connection"}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": True}, AirflowException),
        ({"outcome": "FAILED", "cause": "X: y", "recoverable": False}, AirflowFailException),
        ({"outcome": "CANCELED", "timed_out": True}, AirflowTaskTimeout),
        ({"outcome": "CANCELED", "timed_out": False}, AirflowFailException),
        ({"status": "superseded", "attempt": "other run/1"}, AirflowFailException),
        ({"outcome": "OF_A_LATER_VERSION", "restarts": 0, "rescales": 0}, AirflowException),
        ({"status": "of a later version"}, AirflowException),
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
    assert task_result("departures", event, None) == {
        "outcome": outcome,
        "restarts": 1,
        "rescales": 2,
    }


@pytest.mark.parametrize(
    ("on_suspend", "error"), [(OnSuspend.SKIP, AirflowSkipException), (OnSuspend.FAIL, AirflowFailException)]
)
def test_task_of_a_suspended_job_ends_as_declared(on_suspend: OnSuspend, error: type[Exception]) -> None:
    event = {"status": "finished", "restarts": 0, "rescales": 0}
    with pytest.raises(error, match="'departures' was suspended"):
        task_result("departures", event | {"outcome": "SUSPENDED"}, None, on_suspend=on_suspend)
    assert (
        task_result("departures", event | {"outcome": "FINISHED"}, None, on_suspend=on_suspend)["outcome"] == "FINISHED"
    )
