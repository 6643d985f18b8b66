"""What the demo reads of a DAG run."""

from __future__ import annotations

import pytest

from airflow_adaptive.local.airflow_api import AirflowApi
from airflow_adaptive.local.demo.job import Job, JobEndedError


class FakeApi(AirflowApi):
    """An Airflow whose DAG run is in a state."""

    def __init__(self, state: str) -> None:
        self.state = state

    def run_state(self, dag_id: str, run_id: str) -> str:
        return self.state

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        return f"log of {task_id}"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_unfinished_run_is_running(state: str) -> None:
    job = Job(FakeApi(state), "flights", "run")
    job.require_running()
    assert not job.has_ended
    with pytest.raises(JobEndedError):
        job.require_success()


@pytest.mark.parametrize("state", ["success", "failed"])
def test_error_about_an_ended_run_contains_the_logs(state: str) -> None:
    job = Job(FakeApi(state), "flights", "run")
    assert job.has_ended
    with pytest.raises(JobEndedError, match=f"(?s){state}.*log of resources.*log of departures"):
        job.require_running()


def test_success_is_a_success() -> None:
    Job(FakeApi("success"), "flights", "run").require_success()
