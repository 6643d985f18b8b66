"""Overrides by users have precedence over policies, and policies in a dry run change nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.autoscaling.combined import CombinedPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.lab.fakes.manual_clock import START
from tests.support.runtime.policy_simulation import (
    by,
    calendar,
    following,
    loaded,
    policy_of,
    reasons,
    request_bounds,
    roomy,
    running_on,
    source_of,
    until,
)

MINUTES = 60.0


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


def test_loop_that_can_not_read_the_control_requests_yet_keeps_to_what_the_log_states_a_user_has_set():
    job = following(calendar(look_ahead=None))
    request_bounds(job, (1, 1), expires=90 * MINUTES)
    until(job, 30 * MINUTES)
    job.store.requests = ControlRequests(is_read=False)
    assert running_on(until(job, 80 * MINUTES)) == 1
    assert by(job) == ("USER", "alice")
    assert running_on(until(job, 92 * MINUTES)) == 4, "it expires all the same"


def test_bounds_of_a_calendar_that_is_kept_apart_are_reported_as_such_and_a_users_win_over_them():
    job = roomy()
    kept_apart = ControlRequests(
        calendar={"job": ParallelismRange(2, 2)},
        calendar_requester=Requester(requested_by="calendar/set/r", via="task"),
    )
    job.store.requests = kept_apart
    assert running_on(until(job, 5 * MINUTES)) == 2
    assert by(job) == ("CALENDAR", "calendar")
    job.store.requests = replace(
        kept_apart, requirements={"job": ParallelismRange(1, 1)}, requester=Requester(requested_by="alice", via="CLI")
    )
    assert running_on(until(job, 10 * MINUTES)) == 1
    cleared = replace(kept_apart, requirements={"job": ParallelismRange(-1, -1)})
    job.store.requests = cleared
    assert running_on(until(job, 15 * MINUTES)) == 2
    job.store.requests = replace(cleared, calendar={"job": ParallelismRange(-1, -1)})
    assert running_on(until(job, 20 * MINUTES)) == 4


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
