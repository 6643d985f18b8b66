"""The events with which a control loop resumes its task."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._airflow.process.loop_events import finished_event
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
def test_end_of_a_failed_job_reports_its_root_cause_and_whether_a_retry_may_help(
    failure: Failure, options: dict[str, Any], recoverable: bool
) -> None:
    job = Scenario(**options).given_executing(2).when_query_failed(failure)
    job.when_query_failed(Failure(error_class="OTHER", message="")).when_driver_ended()
    assert isinstance(job.state.current, Finished)
    event = finished_event(job.state, job.state.current, None, "the cluster does not answer")
    assert event["cause"] == f"{failure.summary} (and 1 concurrent failure); the cluster does not answer"
    assert event["recoverable"] is recoverable
