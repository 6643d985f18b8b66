"""The sensor waits for a state of a job."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_adaptive._airflow.internals import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from airflow_adaptive.sensors.adaptive_job import AdaptiveJobSensor
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_job import CONTEXT, deferred_to, fire, publish_job


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return publish_job(monkeypatch)


def test_sensor_waits_for_any_of_its_states(airflow: FakeComms) -> None:
    sensor = AdaptiveJobSensor(task_id="t", job="departures", states=["SUSPENDED", "Executing"])
    event = fire(deferred_to(lambda: sensor.execute(CONTEXT)))
    assert sensor.execute_complete(CONTEXT, event) == {"state": "Executing", "parallelism": {"job": 2}}


def test_sensor_that_waits_in_vain_reports_what_the_job_is(airflow: FakeComms) -> None:
    sensor = AdaptiveJobSensor(task_id="t", job="departures", states="Finished", timeout=0.001, deferrable=False)
    with pytest.raises(AirflowSensorTimeout, match="'departures' is Executing, not"):
        sensor.execute(CONTEXT)
    airflow.asset_states = {}
    soft = AdaptiveJobSensor(task_id="t", job="departures", timeout=0.001, deferrable=False, soft_fail=True)
    with pytest.raises(AirflowSkipException, match="is not known to Airflow, not Executing"):
        soft.execute(CONTEXT)


@pytest.mark.parametrize(
    ("states", "violation"),
    [(["Excuting"], "did you mean 'Executing'"), ([], "name a state"), ([7], "unknown state 7")],
)
def test_sensor_refuses_states_that_there_are_not(airflow: FakeComms, states: Any, violation: str) -> None:
    with pytest.raises(AirflowFailException, match=violation):
        AdaptiveJobSensor(task_id="t", job="departures", states=states).execute(CONTEXT)
