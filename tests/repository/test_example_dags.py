"""The examples in `dags/`, read as Airflow's dag-processor reads them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from airflow_adaptive.autoscaling.calendar.changes import upcoming_changes
from airflow_adaptive.operators.rescale_policy import TASK_ID
from tests.support.repository import ROOT

DAGS = ROOT / "dags"
ZONE = "America/New_York"


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    bag = DagBag(DAGS)
    assert not bag.import_errors
    return dict(bag.dags)


def changes(policy: Any, day: tuple[int, int, int], days: int = 1) -> list[tuple[str, str | None, tuple[int, int]]]:
    """When bounds change within some days, for which window, and to which, without being early."""
    begin = pendulum.datetime(*day, tz=ZONE)
    found = upcoming_changes(policy, begin - timedelta(seconds=1), 50, lead=timedelta(0))
    kept = [change for change in found if change.at < begin.add(days=days)]
    return [(change.local[:16], change.window, (change.after["*"].lower, change.after["*"].upper)) for change in kept]


def test_examples_can_be_read_and_written_to_airflows_database(dags: dict[str, Any]):
    names = {file.stem for file in DAGS.glob("*.py")}
    assert set(dags) == names
    for dag in dags.values():
        again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
        assert again.task_ids == dag.task_ids
        assert "example" in again.tags


def test_calendar_knows_working_days_weekends_holidays_and_the_days_around_thanksgiving(dags: dict[str, Any]):
    policy = dags["flight_departures_calendar"].get_task(TASK_ID).policy
    assert changes(policy, (2026, 6, 1)) == [
        ("2026-06-01T06:00", "working day", (2, 4)),
        ("2026-06-01T21:30", None, (1, 2)),
    ]
    assert changes(policy, (2026, 6, 6)) == [
        ("2026-06-06T08:00", "weekend", (1, 3)),
        ("2026-06-06T20:00", None, (1, 2)),
    ]
    assert changes(policy, (2026, 11, 26)) == [], "Thanksgiving is no working day"
    assert changes(policy, (2026, 11, 29)) == [
        ("2026-11-29T05:00", "Thanksgiving", (4, 4)),
        ("2026-11-29T23:30", None, (1, 2)),
    ]
    assert changes(policy, (2026, 12, 23), days=10) == [], (
        "nothing moves from the 23rd of December to the 1st of January"
    )


def test_calendar_goes_by_new_yorks_clocks_and_is_early(dags: dict[str, Any]):
    timetable = dags["flight_departures_calendar"].timetable
    assert timetable.lead == timedelta(minutes=5)
    (change,) = upcoming_changes(timetable.policy, pendulum.datetime(2026, 3, 9, tz=ZONE), 1, lead=timetable.lead)
    assert change.local == "2026-03-09T05:55:00-04:00", "the first Monday of summer time"


def test_calendar_of_the_combined_example_sets_floor_and_ceiling_of_the_load(dags: dict[str, Any]):
    policy = dags["flight_departures_by_load"].get_task("departures").rescale_policy
    assert changes(policy.calendar, (2026, 9, 30)) == [
        ("2026-09-30T06:00", "working day", (2, 4)),
        ("2026-09-30T21:30", None, (1, 3)),
        ("2026-09-30T22:00", "closing of the month", (3, 4)),
    ]
    assert policy.load.target == 0.7


def test_each_job_of_the_fleet_has_its_own_input_and_output(dags: dict[str, Any]):
    fleet = dags["flight_airports"].get_task("airports")
    task = fleet.unmap({"job": "kennedy", "parallelism": (1, 4)})
    task.render_template_fields({"params": {"directory": "/data"}, "task": task})
    assert task.application_args == ["--input=/data/kennedy/input", "--output=/data/kennedy/output"]
    assert task.parallelism == (1, 4)
