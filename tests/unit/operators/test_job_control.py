"""Other DAGs change what a job may use, stop it, and wait for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk.serde import deserialize, serialize

from airflow_adaptive.launch import deferral, job_state
from airflow_adaptive.launch.job_events import JobEvent, event_payload, event_position, events_since
from airflow_adaptive.operators.job_control import SetResourceRequirementsOperator, StopAdaptiveJobOperator
from airflow_adaptive.runtime.clock import SystemClock
from airflow_adaptive.scheduler.snapshot import to_json
from airflow_adaptive.scheduler.state import Finished, Outcome
from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor
from airflow_adaptive.testing.scenario import HOPELESS, Scenario
from airflow_adaptive.triggers import job_state as job_state_triggers
from airflow_adaptive.triggers.job_state import AdaptiveJobEventTrigger, JobStateTrigger
from tests.support.airflow.fake_supervisor import FakeComms, api_server_error
from tests.support.airflow.published_documents import batch, executing, shown, suspended

SUMMARY: dict[str, Any] = {
    "job": "departures",
    "state": "Executing",
    "since": "2026-01-01T00:00:00+00:00",
    "outcome": None,
    "cause": None,
    "parallelism": {"job": 2},
    "restarts": 3,
    "rescales": 2,
    "attempt": "d/t/r/1",
    "last_transition": {"at": "2026-01-01T00:00:00+00:00", "reason": "2 slots are there"},
}


class Instance:
    dag_id, task_id, run_id = "night", "shrink", "r"
    map_index = -1


CONTEXT: Any = {"ti": Instance()}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    """Airflow, with a job that executes with bounds of 1 and 4."""
    fake = FakeComms.install(monkeypatch)
    job = Scenario()
    job.given_executing(2)
    fake.asset_states = {"summary": SUMMARY, "scheduler": json.loads(json.dumps(to_json(job.state)))}
    return fake


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    for module in (job_state, job_state_triggers):
        monkeypatch.setattr(module, "POLL_INTERVAL", timedelta(0))
    monkeypatch.setattr(deferral, "MIN_DEFERRAL", timedelta(0))


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


# ---- requirements ---------------------------------------------------------------------------------------------------


def body(lower: int, upper: int) -> dict[str, Any]:
    return {"job": {"parallelism": {"lowerBound": lower, "upperBound": upper}}}


def test_bounds_that_are_to_hold_for_two_hours_are_left_with_when_they_expire(airflow: FakeComms) -> None:
    before = datetime.now(UTC)
    SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=2, hold="2 h").execute(CONTEXT)
    until = datetime.fromisoformat(airflow.asset_states["requesters"]["requirements"]["until"])
    assert timedelta(hours=2) <= until - before < timedelta(hours=2, minutes=1)


@pytest.mark.parametrize(
    ("given", "finding"),
    [
        ({"parallelism": 2, "hold": "for a while"}, "'for a while' is no duration"),
        ({"parallelism": 2, "hold": 0}, "must be longer than zero"),
        ({"parallelism": None, "hold": "2 h"}, "hold is given without bounds that could hold"),
    ],
)
def test_hold_that_makes_no_sense_fails_the_task_for_good(
    airflow: FakeComms, given: dict[str, Any], finding: str
) -> None:
    with pytest.raises(AirflowFailException, match=finding):
        SetResourceRequirementsOperator(task_id="t", job="departures", **given).execute(CONTEXT)
    assert "requirements" not in airflow.asset_states


@pytest.mark.parametrize(
    ("parallelism", "asked", "bounds"),
    [
        ((2, 3), (2, 3), (2, 3)),
        ([2, 3], (2, 3), (2, 3)),
        (4, (4, 4), (4, 4)),
        ({"job": (1, 3)}, (1, 3), (1, 3)),
        ({"job": (-1, 2)}, (-1, 2), (1, 2)),
        (None, (-1, -1), (1, 4)),
    ],
)
def test_bounds_are_left_for_the_job_with_who_asked(
    airflow: FakeComms, parallelism: Any, asked: tuple[int, int], bounds: tuple[int, int]
) -> None:
    operator = SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=parallelism)
    assert operator.execute(CONTEXT) == body(*bounds)
    assert airflow.asset_states["requirements"] == body(*asked)
    assert "until" not in airflow.asset_states["requesters"]["requirements"]
    assert airflow.asset_states["requesters"]["requirements"]["by"] == "night/shrink/r"
    assert "departures" in str(airflow.variables), "the loop is told to look"


@pytest.mark.parametrize(
    ("parallelism", "finding"),
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
    airflow: FakeComms, parallelism: Any, finding: str
) -> None:
    with pytest.raises(AirflowFailException, match="departures") as refused:
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=parallelism).execute(CONTEXT)
    assert finding in str(refused.value)
    assert "requirements" not in airflow.asset_states


def test_job_that_has_ended_takes_no_bounds(airflow: FakeComms) -> None:
    state = Scenario().state
    over = Finished(
        since=datetime.now(UTC),
        outcome=Outcome.FINISHED,
        cause=None,
        stop_deadline=datetime.now(UTC),
    )
    airflow.asset_states["scheduler"] = to_json(replace(state, current=over))
    with pytest.raises(AirflowFailException, match="has ended"):
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=1).execute(CONTEXT)


@pytest.mark.parametrize(
    ("job", "told"),
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
def test_job_that_can_not_have_other_bounds_says_why_in_the_words_of_the_rest_api(
    airflow: FakeComms, job: Callable[[], Scenario], told: str
) -> None:
    airflow.asset_states = shown(job())
    with pytest.raises(AirflowFailException) as refused:
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=1).execute(CONTEXT)
    assert str(refused.value) == told
    assert "requirements" not in airflow.asset_states


def test_suspended_job_takes_the_bounds_that_it_is_resumed_with(airflow: FakeComms) -> None:
    airflow.asset_states = shown(suspended())
    body = SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=(2, 3)).execute(CONTEXT)
    assert airflow.asset_states["requirements"] == body == {"job": {"parallelism": {"lowerBound": 2, "upperBound": 3}}}


@pytest.mark.parametrize("states", [{}, {"summary": {}}, {"summary": SUMMARY, "scheduler": {"format": 99}}])
def test_unknown_job_is_an_error_that_names_it(airflow: FakeComms, states: dict[str, Any]) -> None:
    airflow.asset_states = states
    with pytest.raises(AirflowFailException, match="'departures'"):
        SetResourceRequirementsOperator(task_id="t", job="departures", parallelism=1).execute(CONTEXT)


def test_job_and_bounds_are_templated() -> None:
    with DAG("d", schedule=None):
        operator = SetResourceRequirementsOperator(
            task_id="t",
            job="{{ params.job }}",
            parallelism="{{ params.bounds }}",  # type: ignore[arg-type]
        )
    assert {"job", "parallelism"} <= set(operator.template_fields)


# ---- stop -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cancel", "desired_state", "outcome"), [(False, "suspended", "SUSPENDED"), (True, "canceled", "CANCELED")]
)
def test_stop_asks_and_waits_without_a_worker(
    airflow: FakeComms, cancel: bool, desired_state: str, outcome: str
) -> None:
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", cancel=cancel)
    trigger = deferred_to(lambda: operator.execute(CONTEXT))
    assert airflow.asset_states["desired_state"] == desired_state
    airflow.asset_states["summary"] = ended(outcome)
    assert operator.execute_complete(CONTEXT, fire(trigger)) == outcome


def test_stop_in_the_worker_tells_how_the_job_ended(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pass_time(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = ended("FAILED")

    monkeypatch.setattr(SystemClock, "sleep", pass_time)
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", deferrable=False)
    assert operator.execute(CONTEXT) == "FAILED"


def test_job_that_has_ended_is_left_as_it_is(airflow: FakeComms) -> None:
    airflow.asset_states["summary"] = ended("SUSPENDED")
    assert StopAdaptiveJobOperator(task_id="t", job="departures", cancel=True).execute(CONTEXT) == "SUSPENDED"
    assert "desired_state" not in airflow.asset_states


def test_job_that_does_not_stop_in_time_is_an_error_that_says_what_to_look_at(airflow: FakeComms) -> None:
    operator = StopAdaptiveJobOperator(task_id="t", job="departures", timeout="1 ms")
    with pytest.raises(AirflowException, match=r"did not end within 1 ms. Its state is Executing.*triggerer"):
        operator.execute_complete(CONTEXT, fire(deferred_to(lambda: operator.execute(CONTEXT))))


@pytest.mark.parametrize("timeout", ["soon", -1, 0])
def test_stop_without_a_time_is_refused(airflow: FakeComms, timeout: Any) -> None:
    with pytest.raises(AirflowFailException, match=str(timeout)):
        StopAdaptiveJobOperator(task_id="t", job="departures", timeout=timeout).execute(CONTEXT)
    assert "desired_state" not in airflow.asset_states


# ---- the sensor -----------------------------------------------------------------------------------------------------


def test_sensor_waits_for_any_of_its_states(airflow: FakeComms) -> None:
    sensor = AdaptiveJobSensor(task_id="t", job="departures", states=["SUSPENDED", "Executing"])
    event = fire(deferred_to(lambda: sensor.execute(CONTEXT)))
    assert sensor.execute_complete(CONTEXT, event) == {"state": "Executing", "parallelism": {"job": 2}}


def test_sensor_that_waits_in_vain_tells_what_the_job_is(airflow: FakeComms) -> None:
    sensor = AdaptiveJobSensor(task_id="t", job="departures", states="Finished", timeout=0.001, deferrable=False)
    with pytest.raises(AirflowSensorTimeout, match="'departures' is Executing, not"):
        sensor.execute(CONTEXT)
    airflow.asset_states = {}
    soft = AdaptiveJobSensor(task_id="t", job="departures", timeout=0.001, deferrable=False, soft_fail=True)
    with pytest.raises(AirflowSkipException, match="is not known to Airflow, not Executing"):
        soft.execute(CONTEXT)


@pytest.mark.parametrize(
    ("states", "finding"), [(["Excuting"], "did you mean 'Executing'"), ([], "name a state"), ([7], "unknown state 7")]
)
def test_sensor_refuses_states_that_there_are_not(airflow: FakeComms, states: Any, finding: str) -> None:
    with pytest.raises(AirflowFailException, match=finding):
        AdaptiveJobSensor(task_id="t", job="departures", states=states).execute(CONTEXT)


def test_trigger_waits_on_while_airflow_does_not_answer(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow.error = api_server_error()

    async def mend(clock: SystemClock, seconds: float) -> None:
        airflow.error = None

    monkeypatch.setattr(SystemClock, "sleep", mend)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert fire(JobStateTrigger(job="departures", states=["Executing"], until=until))["status"] == "reached"


# ---- events for other DAGs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "events"),
    [
        ({}, []),
        ({"rescales": 3, "restarts": 4}, [JobEvent.RESCALED]),
        ({"rescales": 5, "restarts": 7}, [JobEvent.RESCALED, JobEvent.RESTARTED]),
        ({"restarts": 4}, [JobEvent.RESTARTED]),
        ({"outcome": "FAILED"}, [JobEvent.FAILED]),
        ({"rescales": 0, "restarts": 0, "attempt": "next"}, []),
        ({"state": "Restarting"}, []),
    ],
)
def test_events_are_what_has_happened_since_the_last_look(now: dict[str, Any], events: list[JobEvent]) -> None:
    assert list(events_since(event_position(SUMMARY), SUMMARY | now)) == events


def test_job_that_ends_so_again_is_another_event() -> None:
    first = ended("SUSPENDED")
    again = first | {"since": "2026-01-03T00:00:00+00:00"}
    assert not list(events_since(event_position(first), first))
    assert list(events_since(event_position(first), again)) == [JobEvent.SUSPENDED]


def test_event_tells_what_another_dag_needs() -> None:
    assert event_payload(JobEvent.RESCALED, SUMMARY) == {
        "event": "RESCALED",
        "job": "departures",
        "state": "Executing",
        "parallelism": {"job": 2},
        "restarts": 3,
        "rescales": 2,
        "cause": None,
        "at": "2026-01-01T00:00:00+00:00",
        "reason": "2 slots are there",
    }


class Watched:
    """The state store of the asset that is watched."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


def watch(watched: Watched, events: list[str]) -> Any:
    trigger = AdaptiveJobEventTrigger(job="departures", events=events)
    trigger.asset_state_store = watched  # type: ignore[assignment]
    return trigger


def test_watcher_tells_what_happened_while_no_triggerer_ran(airflow: FakeComms) -> None:
    watched = Watched()
    watched.values["position of departures"] = event_position(SUMMARY)
    airflow.asset_states["summary"] = ended("FAILED") | {"rescales": 3, "restarts": 4}
    assert fire(watch(watched, ["FAILED"]))["event"] == "FAILED"


def test_watcher_begins_with_what_comes_next(airflow: FakeComms, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()

    async def rescale(clock: SystemClock, seconds: float) -> None:
        airflow.asset_states["summary"] = SUMMARY | {"rescales": 3, "restarts": 4}

    monkeypatch.setattr(SystemClock, "sleep", rescale)
    assert fire(watch(watched, ["RESCALED"]))["event"] == "RESCALED"
    assert watched.values["position of departures"] == event_position(SUMMARY), (
        "an event that is not taken is told again"
    )


def test_unknown_event_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="SCALED"):
        AdaptiveJobEventTrigger(job="departures", events=["SCALED"])
