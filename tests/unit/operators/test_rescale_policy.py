"""A DAG that sets a job's bounds when a scheduled policy changes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction

from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.dag_factories import TASK_ID, rescale_policy_dag
from airflow_adaptive.operators.rescale_policy import ApplyRescalePolicyOperator
from airflow_adaptive.scheduler.snapshot import to_json
from airflow_adaptive.testing.scenario import Scenario
from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable
from tests.support.airflow.fake_supervisor import FakeComms

POLICY = scheduled_policy(
    zone="Europe/Berlin", windows=[window("day", (2, 3), start="02:30", end="20:00")], default=1, look_ahead=None
)
ALWAYS = scheduled_policy(zone="Europe/Berlin", windows=[window("always", (2, 3))])


class Instance:
    dag_id, task_id, run_id = "calendar", TASK_ID, "r"
    map_index = -1


CONTEXT: Any = {"ti": Instance()}


def due(timetable: RescalePolicyTimetable, after: str, **restriction: Any) -> str | None:
    """When the next run is due in Berlin after one that was due then."""
    last = DataInterval.exact(pendulum.parse(after))  # type: ignore[arg-type]
    limits = TimeRestriction(**({"earliest": None, "latest": None, "catchup": True} | restriction))
    info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=limits)
    return None if info is None else info.run_after.in_timezone("Europe/Berlin").isoformat()


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> FakeComms:
    """Airflow, with a job that executes with bounds of 1 and 4."""
    fake = FakeComms.install(monkeypatch)
    job = Scenario()
    job.given_executing(2)
    summary = {"state": "Executing", "outcome": None, "requirements": {"job": {"lower": 1, "upper": 4}}}
    fake.asset_states = {"summary": summary, "scheduler": json.loads(json.dumps(to_json(job.state)))}
    return fake


def test_runs_are_due_when_the_policy_changes_also_on_the_night_on_which_clocks_are_set_forward():
    timetable = RescalePolicyTimetable(POLICY)
    assert due(timetable, "2026-03-28T12:00:00+01:00") == "2026-03-28T20:00:00+01:00"
    assert due(timetable, "2026-03-28T20:00:00+01:00") == "2026-03-29T03:00:00+02:00"
    assert due(timetable, "2026-03-29T03:00:00+02:00") == "2026-03-29T20:00:00+02:00"


def test_a_run_that_gives_more_is_due_so_much_earlier():
    timetable = RescalePolicyTimetable(POLICY, timedelta(minutes=10))
    assert due(timetable, "2026-06-01T20:00:00+02:00") == "2026-06-02T02:20:00+02:00"
    assert due(timetable, "2026-06-02T02:20:00+02:00") == "2026-06-02T20:00:00+02:00"


def test_no_run_is_due_before_the_dag_starts_or_after_it_has_ended():
    timetable = RescalePolicyTimetable(POLICY)
    start = pendulum.datetime(2026, 7, 1, 18)
    assert due(timetable, "2026-06-01T20:00:00+02:00", earliest=start) == "2026-07-01T20:00:00+02:00"
    assert due(timetable, "2026-07-01T20:00:00+02:00", latest=start) is None
    limits = TimeRestriction(earliest=None, latest=None, catchup=True)
    assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=limits) is None


def test_without_catchup_what_was_missed_is_one_run_for_the_change_that_still_holds():
    timetable = RescalePolicyTimetable(POLICY)
    limits = TimeRestriction(earliest=pendulum.datetime(2020, 1, 1), latest=None, catchup=False)
    info = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=limits)
    assert info is not None
    now = datetime.now(UTC)
    assert now - timedelta(days=1) < info.run_after <= now
    following = timetable.next_dagrun_info(last_automated_data_interval=info.data_interval, restriction=limits)
    assert following is not None
    assert following.run_after > now


def test_policy_that_never_changes_has_no_run():
    assert due(RescalePolicyTimetable(ALWAYS), "2026-06-01T20:00:00+02:00") is None


def test_timetable_survives_the_way_through_airflows_database():
    timetable = RescalePolicyTimetable(POLICY, timedelta(minutes=10))
    again = decode_timetable(json.loads(json.dumps(encode_timetable(timetable))))
    assert isinstance(again, RescalePolicyTimetable)
    assert (again.policy, again.lead) == (POLICY, timedelta(minutes=10))
    assert again.summary == "Rescale policy (Europe/Berlin)"
    assert "day (Europe/Berlin)" in again.description


def test_lead_that_is_none_is_refused():
    RescalePolicyTimetable(POLICY).validate()
    with pytest.raises(AirflowTimetableInvalid, match="from 0 to 1 day"):
        RescalePolicyTimetable(POLICY, timedelta(days=-1)).validate()


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
    for finding in (
        "rescale_policy_dag 'calendar': job is ' ': give the id of the job",
        "schedule can't be given: the policy is the schedule",
        "policy is a LoadPolicy: give what scheduled_policy() returns",
        "lead: 'soon'",
    ):
        assert finding in str(reported.value)
    with pytest.raises(RescalePolicyError, match="lead '2 d' must be from 0 to 1 day"):
        rescale_policy_dag("calendar", job="departures", policy=POLICY, lead="2 d")


def test_lead_of_a_dag_is_written_as_any_other_duration():
    dag = rescale_policy_dag("calendar", job="departures", policy=POLICY, lead="10 min")
    assert isinstance(dag.timetable, RescalePolicyTimetable)
    assert dag.timetable.lead == timedelta(minutes=10)
    assert vars(dag.get_task(TASK_ID))["lead"] == timedelta(minutes=10)


def test_task_sets_what_the_policy_asks_for_now(airflow):
    operator = ApplyRescalePolicyOperator(task_id=TASK_ID, job="departures", policy=ALWAYS)
    body = operator.execute(CONTEXT)
    assert body == {"job": {"parallelism": {"lowerBound": 2, "upperBound": 3}}}
    assert airflow.asset_states["calendar"] == body
    assert airflow.asset_states["requesters"]["calendar"]["by"] == "calendar/set_requirements/r"
    assert "requirements" not in airflow.asset_states, "that is where people's bounds are, which win"


def test_policy_that_is_a_dry_run_tells_what_it_would_set_and_sets_nothing(airflow):
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
