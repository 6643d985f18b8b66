"""What the demo reads of a DAG run, and its tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_adaptive._core.codec import decode
from airflow_adaptive._core.scheduler.timeline import ReasonCode, Transition
from airflow_adaptive.local.airflow import AirflowApi
from airflow_adaptive.local.demo.job import DemoRun, JobEndedError, transition_line, transitions_table


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
    job = DemoRun(FakeApi(state), "flights", "run")
    job.require_running()
    assert not job.has_ended
    with pytest.raises(JobEndedError):
        job.require_success()


@pytest.mark.parametrize("state", ["success", "failed"])
def test_error_about_an_ended_run_contains_the_logs(state: str) -> None:
    job = DemoRun(FakeApi(state), "flights", "run")
    assert job.has_ended
    with pytest.raises(JobEndedError, match=f"(?s){state}.*log of resources.*log of departures"):
        job.require_running()


def test_success_is_a_success() -> None:
    DemoRun(FakeApi("success"), "flights", "run").require_success()


ITEM = {
    "type": "Transition",
    "at": "2026-01-01T10:00:00+00:00",
    "source": "Deploying",
    "target": "Executing",
    "version": 3,
    "before": None,
    "after": {"job": 2},
    "tier": None,
    "reason_code": "PLAN_ACTIVATED",
    "reason": "the driver has activated the plan",
}


def transition(at: datetime, source: str, target: str) -> Transition:
    plan = {"job": 1}
    code = ReasonCode.PLAN_ACTIVATED
    return Transition(
        at=at, source=source, target=target, version=1, before=plan, after=plan, reason_code=code, reason="why"
    )


def test_transition_is_read_from_the_xcom() -> None:
    line = transition_line(decode(Transition, ITEM))
    assert line == "Deploying -> Executing [- -> 2]: the driver has activated the plan"


def test_transitions_table_contains_the_time_in_each_state() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    lines = transitions_table(
        [
            transition(began, "Created", "Deploying"),
            transition(began + timedelta(seconds=2.5), "Deploying", "Executing"),
        ]
    )
    assert lines.splitlines()[-1].split() == ["00:00:02", "Deploying", "2.5", "s", "Executing", "1", "why"]
