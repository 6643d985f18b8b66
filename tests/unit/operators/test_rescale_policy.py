"""The operator sets the bounds that a scheduled policy advises."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.serialization.serialized_objects import DagSerialization

from airflow_adaptive._airflow.internals import AirflowFailException, AirflowSkipException
from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.operators.rescale_policy import TASK_ID, ApplyRescalePolicyOperator, rescale_policy_dag
from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable
from tests.support.airflow.fake_supervisor import FakeComms
from tests.support.airflow.published_job import publish_job

ALWAYS = scheduled_policy(zone="Europe/Berlin", windows=[window("always", (2, 3))])


class Instance:
    dag_id, task_id, run_id = "calendar", TASK_ID, "r"
    map_index = -1


CONTEXT: Any = {"ti": Instance()}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    return publish_job(monkeypatch)


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


POLICY = scheduled_policy(
    zone="Europe/Berlin", windows=[window("day", (2, 3), start="02:30", end="20:00")], default=1, look_ahead=None
)


def test_dag_can_be_serialized_and_has_one_task_for_the_job():
    dag = rescale_policy_dag("calendar", job="departures", policy=POLICY, tags=["x"])
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    assert again.task_ids == [TASK_ID]
    assert isinstance(again.timetable, RescalePolicyTimetable)
    assert not again.catchup
    assert again.max_active_runs == 1
    run = again.timetable.infer_manual_data_interval(run_after=pendulum.datetime(2026, 7, 1))
    assert run.start == run.end == pendulum.datetime(2026, 7, 1)


def test_one_error_lists_all_that_is_wrong_with_a_dag_of_a_policy():
    with pytest.raises(RescalePolicyError) as reported:
        rescale_policy_dag("calendar", job=" ", policy=LoadPolicy(), lead="soon", schedule="@daily")  # type: ignore[arg-type]
    for violation in (
        "rescale_policy_dag 'calendar': job must be the id of a job, not ' '",
        "schedule must not be set: the policy determines the schedule",
        "policy is a LoadPolicy: use the result of scheduled_policy()",
        "lead: 'soon'",
    ):
        assert violation in str(reported.value)
    with pytest.raises(RescalePolicyError, match="lead '2 d' must be from 0 to 1 day"):
        rescale_policy_dag("calendar", job="departures", policy=POLICY, lead="2 d")


def test_lead_of_a_dag_is_written_as_any_other_duration():
    dag = rescale_policy_dag("calendar", job="departures", policy=POLICY, lead="10 min")
    assert isinstance(dag.timetable, RescalePolicyTimetable)
    assert dag.timetable.lead == timedelta(minutes=10)
    assert vars(dag.get_task(TASK_ID))["lead"] == timedelta(minutes=10)
