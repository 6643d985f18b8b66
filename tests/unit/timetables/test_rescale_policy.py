"""A timetable has a run at each change of a scheduled policy."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from airflow.exceptions import AirflowTimetableInvalid
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction

from airflow_adaptive.autoscaling.calendar.declaration import scheduled_policy, window
from airflow_adaptive.timetables.rescale_policy import RescalePolicyTimetable

POLICY = scheduled_policy(
    zone="Europe/Berlin", windows=[window("day", (2, 3), start="02:30", end="20:00")], default=1, look_ahead=None
)
ALWAYS = scheduled_policy(zone="Europe/Berlin", windows=[window("always", (2, 3))])


def due(timetable: RescalePolicyTimetable, after: str, **restriction: Any) -> str | None:
    """When the next run is due in Berlin after one that was due then."""
    last = DataInterval.exact(pendulum.parse(after))  # type: ignore[arg-type]
    limits = TimeRestriction(**({"earliest": None, "latest": None, "catchup": True} | restriction))
    info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=limits)
    return None if info is None else info.run_after.in_timezone("Europe/Berlin").isoformat()


def test_runs_are_due_when_the_policy_changes_also_when_clocks_are_set_forward():
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
