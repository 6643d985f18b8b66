"""Operators of other DAGs change the requirements of a job, and stop the job."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._airflow.internals import AirflowException, AirflowFailException
from airflow_adaptive._engine.clock import SystemClock
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator, StopAdaptiveJobOperator
from tests.lab.scenario import HOPELESS, Scenario
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_documents import batch, executing, published, suspended
from tests.support.airflow.published_job import CONTEXT, SUMMARY, deferred_to, ended, fire, publish_job


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return publish_job(monkeypatch)


# ---- requirements ---------------------------------------------------------------------------------------------------


def body(lower: int, upper: int) -> dict[str, Any]:
    return {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}


def test_bounds_that_are_to_hold_for_two_hours_are_left_with_when_they_expire(airflow: FakeComms) -> None:
    before = datetime.now(UTC)
    SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=2, duration="2 h").execute(CONTEXT)
    until = datetime.fromisoformat(airflow.asset_states["requirements"]["until"])
    assert timedelta(hours=2) <= until - before < timedelta(hours=2, minutes=1)


@pytest.mark.parametrize(
    ("given", "violation"),
    [
        ({"parallelism": 2, "duration": "for a while"}, "'for a while' is not a duration"),
        ({"parallelism": 2, "duration": 0}, "must be longer than zero"),
        ({"parallelism": None, "duration": "2 h"}, "duration has no effect without parallelism"),
    ],
)
def test_hold_that_makes_no_sense_fails_the_task_for_good(
    airflow: FakeComms, given: dict[str, Any], violation: str
) -> None:
    with pytest.raises(AirflowFailException, match=violation):
        SetResourceRequirementsOperator(task_id="t", job="departures", **given).execute(CONTEXT)
    assert "requirements" not in airflow.asset_states


@pytest.mark.parametrize(
    ("parallelism", "expected", "bounds"),
    [
        ((2, 3), (2, 3), (2, 3)),
        ([2, 3], (2, 3), (2, 3)),
        (4, (4, 4), (4, 4)),
        ({"job": (1, 3)}, (1, 3), (1, 3)),
        ({"job": (-1, 2)}, (-1, 2), (1, 2)),
        (None, (-1, -1), (1, 4)),
    ],
)
def test_bounds_are_stored_for_the_job_with_their_requester(
    airflow: FakeComms, parallelism: Any, expected: tuple[int, int], bounds: tuple[int, int]
) -> None:
    operator = SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=parallelism)
    assert operator.execute(CONTEXT) == body(*bounds)
    assert airflow.requests["requirements"] == body(*expected)
    assert "until" not in airflow.asset_states["requirements"]
    assert airflow.asset_states["requirements"]["by"] == "night/shrink/r"
    assert airflow.asset_states["requirements"]["via"] == "task"
    assert "departures" in str(airflow.variables), "the change marker notifies the loop"


@pytest.mark.parametrize(
    ("parallelism", "violation"),
    [
        ((3, 2), "lower bound [3] for job vertex [job] is higher than the upper bound [2]"),
        ((1, 99_999), "exceeds its maximum parallelism"),
        ((0, 1), "must be greater than zero"),
        ({"map": 1}, "Job vertex [map] was not found in the JobGraph"),
        ({}, "does not specify"),
        ("many", "'many' must be a whole number, or a pair of them"),
    ],
)
def test_bounds_that_can_not_hold_are_refused_and_nothing_is_changed(
    airflow: FakeComms, parallelism: Any, violation: str
) -> None:
    with pytest.raises(AirflowFailException, match="departures") as refused:
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=parallelism).execute(CONTEXT)
    assert violation in str(refused.value)
    assert "requirements" not in airflow.asset_states


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (batch, "Job 'departures' is a batch job: it keeps the parallelism with which it was submitted."),
        (
            lambda: executing(reactive=True),
            "Job 'departures' is in reactive mode: it uses all available slots and ignores requirements.",
        ),
        (
            lambda: executing().when_query_failed(HOPELESS).when_driver_ended(),
            "Job 'departures' has ended (FAILED): run its DAG again to change it.",
        ),
    ],
    ids=["batch", "reactive", "failed"],
)
def test_job_that_cannot_have_other_bounds_gives_the_reason_of_the_rest_api(
    airflow: FakeComms, job: Callable[[], Scenario], message: str
) -> None:
    airflow.asset_states |= published(job())
    with pytest.raises(AirflowFailException) as refused:
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=1).execute(CONTEXT)
    assert str(refused.value) == f"{message} [not-rescalable]"
    assert "requirements" not in airflow.asset_states


def test_suspended_job_takes_the_bounds_that_it_is_resumed_with(airflow: FakeComms) -> None:
    airflow.asset_states |= published(suspended())
    body = SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=(2, 3)).execute(CONTEXT)
    assert airflow.requests["requirements"] == body == {"job": {"parallelism": {"lowerBound": 2, "upperBound": 3}}}


@pytest.mark.parametrize("states", [{}, {"summary": {}}, {"summary": SUMMARY, "scheduler": {"format": 99}}])
def test_unknown_job_is_an_error_that_names_it(airflow: FakeComms, states: dict[str, Any]) -> None:
    airflow.asset_states = states
    with pytest.raises(AirflowFailException, match="'departures'"):
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=1).execute(CONTEXT)


# ---- stop -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cancel", "desired_state", "outcome"), [(False, "suspended", "SUSPENDED"), (True, "canceled", "CANCELED")]
)
def test_stop_requests_and_waits_without_a_worker(
    airflow: FakeComms, cancel: bool, desired_state: str, outcome: str
) -> None:
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", cancel=cancel)
    trigger = deferred_to(lambda: operator.execute(CONTEXT))
    assert airflow.desired_state == desired_state
    airflow.asset_states["summary"] = ended(outcome)
    assert operator.execute_complete(CONTEXT, fire(trigger)) == outcome


def test_stop_in_the_worker_reports_how_the_job_ended(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pass_time(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = ended("FAILED")

    monkeypatch.setattr(SystemClock, "sleep", pass_time)
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", deferrable=False)
    assert operator.execute(CONTEXT) == "FAILED"


def test_job_that_has_ended_is_left_as_it_is(airflow: FakeComms) -> None:
    airflow.asset_states["summary"] = ended("SUSPENDED")
    assert StopAdaptiveJobOperator(task_id="t", job="departures", cancel=True).execute(CONTEXT) == "SUSPENDED"
    assert "desired_state" not in airflow.asset_states


def test_job_that_does_not_stop_in_time_is_an_error_with_the_remedy(airflow: FakeComms) -> None:
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", timeout="1 ms")
    with pytest.raises(AirflowException, match=r"did not end within 1 ms. Its state is Executing.*triggerer"):
        operator.execute_complete(CONTEXT, fire(deferred_to(lambda: operator.execute(CONTEXT))))


@pytest.mark.parametrize("timeout", ["soon", -1, 0])
def test_stop_without_a_time_is_refused(airflow: FakeComms, timeout: Any) -> None:
    with pytest.raises(AirflowFailException, match=str(timeout)):
        StopAdaptiveJobOperator(task_id="t", job="departures", timeout=timeout).execute(CONTEXT)
    assert "desired_state" not in airflow.asset_states
