"""The operator sets the bounds that a scheduled policy advises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._airflow.internals import AirflowFailException, AirflowSkipException
from airflow_adaptive._core.scheduler.snapshot import to_json
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.operators.rescale_policy import TASK_ID, ApplyRescalePolicyOperator
from tests.lab.scenario import Scenario
from tests.support.airflow.fake_supervisor import FakeComms

ALWAYS = scheduled_policy(zone="Europe/Berlin", windows=[window("always", (2, 3))])


class Instance:
    dag_id, task_id, run_id = "calendar", TASK_ID, "r"
    map_index = -1


CONTEXT: Any = {"ti": Instance()}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    """Airflow, with a job that executes with bounds of 1 and 4."""
    fake = FakeComms.install(monkeypatch)
    job = Scenario()
    job.given_executing(2)
    summary = {"state": "Executing", "outcome": None, "requirements": {"job": {"lower": 1, "upper": 4}}}
    scheduler = json.loads(json.dumps(to_json(job.state)))
    fake.asset_states = {"attempt": "d/t/r/1", "summary": summary, "scheduler": scheduler}
    return fake


def test_task_sets_what_the_policy_requests_now(airflow):
    operator = ApplyRescalePolicyOperator(task_id=TASK_ID, job="departures", policy=ALWAYS)
    body = operator.execute(CONTEXT)
    assert body == {"job": {"parallelism": {"lowerBound": 2, "upperBound": 3}}}
    assert airflow.requests["calendar"] == body
    assert airflow.asset_states["calendar"]["by"] == "calendar/set_requirements/r"
    assert "requirements" not in airflow.asset_states, "that is where people's bounds are, which win"


def test_policy_that_is_a_dry_run_reports_what_it_would_set_and_sets_nothing(airflow):
    policy = replace(ALWAYS, dry_run=True)
    with pytest.raises(AirflowSkipException, match=r"dry run: the rescale policy would set \{'job': \(2, 3\)\}"):
        ApplyRescalePolicyOperator(task_id=TASK_ID, job="departures", policy=policy).execute(CONTEXT)
    assert not {"requirements", "calendar"} & airflow.asset_states.keys()


@pytest.mark.parametrize("outcome", ["SUSPENDED", "FINISHED"])
def test_job_that_was_suspended_or_has_ended_is_left_alone(airflow, outcome):
    airflow.asset_states["summary"] |= {"state": "Finished", "outcome": outcome}
    with pytest.raises(AirflowSkipException, match="does not apply to it"):
        ApplyRescalePolicyOperator(task_id=TASK_ID, job="departures", policy=ALWAYS).execute(CONTEXT)
    assert "calendar" not in airflow.asset_states


def test_policy_for_a_vertex_that_the_job_does_not_have_fails(airflow):
    policy = scheduled_policy(zone="UTC", windows=[window("always", {"sink": 2})])
    with pytest.raises(AirflowFailException, match="window 'always': the job has no vertex 'sink': it has 'job'"):
        ApplyRescalePolicyOperator(task_id=TASK_ID, job="departures", policy=policy).execute(CONTEXT)
