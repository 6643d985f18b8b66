"""A DAG that sets the bounds of a job at each change of a scheduled policy."""

from __future__ import annotations

import json
from datetime import timedelta

import pendulum
import pytest
from airflow.serialization.serialized_objects import DagSerialization

from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.operators.rescale_policy import TASK_ID, rescale_policy_dag
from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable

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


def test_what_is_wrong_with_a_dag_of_a_policy_is_one_error_that_lists_everything():
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
