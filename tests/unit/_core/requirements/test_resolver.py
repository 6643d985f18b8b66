"""A job that follows a rescale policy by itself, and people who say otherwise: the real loop, in simulated time."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import documents
from airflow_adaptive.autoscaling.calendar.declaration import window
from airflow_adaptive.autoscaling.calendar.violations import LookAhead
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.lab.fakes.manual_clock import START
from tests.support.runtime.policy_simulation import (
    by,
    calendar,
    following,
    loaded,
    policy_of,
    published_view,
    reasons,
    request_bounds,
    running_on,
    source_of,
    until,
)

MINUTES = 60.0
HOURS = 3600.0


def upper(state: SchedulerState) -> int:
    return state.requirements["job"].upper


def test_window_of_the_calendar_changes_the_bounds_and_the_job_rescales_into_it():
    job = following(calendar(look_ahead=None))
    night = until(job, 59 * MINUTES)
    assert (upper(night), running_on(night)) == (2, 2)
    morning = until(job, 61 * MINUTES)
    assert (upper(morning), running_on(morning)) == (4, 4)
    assert running_on(until(job, 2 * HOURS + 60)) == 2
    assert by(job) == ("POLICY", "calendar")


@pytest.mark.long
def test_rescale_for_a_window_begins_earlier_by_the_measured_time_of_a_rescale():
    windows = [window("first", 4, start="01:00", end="02:00"), window("second", 4, start="03:00", end="04:00")]
    job = following(calendar(*windows, look_ahead=LookAhead(unmeasured=timedelta(minutes=10))))
    assert running_on(until(job, 46 * MINUTES)) == 4, (
        "none was measured: ten minutes, and half of it more, up to fifteen"
    )
    assert running_on(until(job, 2 * HOURS + 60)) == 2
    assert running_on(until(job, 3 * HOURS - 60)) == 2, "they take seconds"
    assert running_on(until(job, 3 * HOURS + 10)) == 4


@pytest.mark.long
def test_decision_and_page_state_that_it_was_the_calendar_and_for_which_window():
    job = following(calendar(look_ahead=None), poll_interval="5 s")
    until(job, 90 * MINUTES)
    assert any(text.startswith("bounds by calendar (window 'morning'): ") for text in reasons(job))
    source = dict(source_of(job))
    since = datetime.fromisoformat(source.pop("since")) - (START + timedelta(hours=1))
    assert timedelta(0) <= since <= timedelta(seconds=5)
    assert source == {
        "origin": "POLICY",
        "name": "calendar",
        "via": "",
        "until": (START + timedelta(hours=2)).isoformat(),
        "reason": "window 'morning'",
    }
    policy = policy_of(job)
    assert (policy["kind"], policy["dry_run"], policy["active"], policy["problem"]) == (
        "ScheduledPolicy",
        False,
        True,
        None,
    )
    assert policy["advice"]["bounds"] == {"job": {"lower": 3, "upper": 4}}
    json.dumps(documents(published_view(job), {}))


def test_job_grows_and_shrinks_with_its_load():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    assert running_on(until(job, 20 * MINUTES)) == 1, "it gave back what its load does not take"
    load.rate = 300.0
    grown = until(job, 30 * MINUTES)
    assert running_on(grown) >= 4
    assert by(job) == ("POLICY", "load")
    assert any("bounds by load (query 'q': busy for " in text for text in reasons(job))
    load.rate = 60.0
    assert running_on(until(job, 60 * MINUTES)) == 1


def test_user_wins_over_the_policy_until_the_bounds_expire_then_the_policy_goes_on():
    job = following(calendar(look_ahead=None))
    until(job, 30 * MINUTES)
    request_bounds(job, (1, 1), expires=90 * MINUTES)
    held = until(job, 80 * MINUTES)
    assert running_on(held) == 1, "the window of the calendar has begun meanwhile"
    assert by(job) == ("USER", "alice")
    assert source_of(job)["until"] == (START + timedelta(minutes=90)).isoformat()
    assert not policy_of(job)["active"]
    assert running_on(until(job, 91 * MINUTES)) == 4
    assert by(job) == ("POLICY", "calendar")
    assert any("bounds by alice (REST, until " in text for text in reasons(job))


def test_loop_that_cannot_read_requests_yet_keeps_the_bounds_in_the_journal():
    job = following(calendar(look_ahead=None))
    request_bounds(job, (1, 1), expires=90 * MINUTES)
    until(job, 30 * MINUTES)
    job.store.requests = ControlRequests(is_read=False)
    assert running_on(until(job, 80 * MINUTES)) == 1
    assert by(job) == ("USER", "alice")
    assert running_on(until(job, 92 * MINUTES)) == 4, "it expires all the same"


def test_load_rescales_within_the_bounds_of_a_calendar_that_is_kept_apart():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    job.store.requests = ControlRequests(
        calendar={"job": ParallelismRange(3, 4)}, calendar_requester=Requester(requested_by="calendar/set/r")
    )
    assert running_on(until(job, 30 * MINUTES)) == 3
    load.rate = 900.0
    assert running_on(until(job, 40 * MINUTES)) == 4


@pytest.mark.parametrize(
    "policy",
    [
        calendar(look_ahead=None, dry_run=True),
        CombinedPolicy(calendar=calendar(look_ahead=None), dry_run=True),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_dry_run_only_reports_what_it_would_do(policy: Any):
    job = following(policy)
    assert running_on(until(job, 90 * MINUTES)) == 4, "what its DAG declares"
    reported = [text for text in reasons(job) if text.startswith("dry run: ")]
    assert [text.split(" (")[0] for text in reported] == [
        "dry run: calendar would set job 1-2",
        "dry run: calendar would set job 3-4",
    ]
    assert by(job) == ("DAG", "dag")
    assert (policy_of(job)["dry_run"], policy_of(job)["active"]) == (True, False)
