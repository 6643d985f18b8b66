"""The precedence of the sources as a pure function, user > policy > calendar > DAG, and the limits that bound each of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.advice import PublishedAdvice, PublishedPolicy
from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester, decode
from airflow_adaptive._core.requirements.limits import NO_LIMITS, ReportedLimits
from airflow_adaptive._core.requirements.resolution import (
    RequirementsOrigin,
    RequirementsSource,
    Resolution,
    latest_requirements,
    resolve,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from airflow_adaptive._core.scheduler.state import SchedulerState
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario

GRAPH = JobGraph.single("job", ParallelismRange(1, 4), max_parallelism=8)
DECLARED = Scenario(graph=GRAPH).state
REACTIVE = Scenario(graph=GRAPH, reactive=True).state
USER = ControlRequests(
    requirements={"job": ParallelismRange(2, 2)}, requester=Requester(requested_by="alice", via="REST")
)
CALENDAR = ControlRequests(
    calendar={"job": ParallelismRange(3, 3)}, calendar_requester=Requester(requested_by="dag/task/run")
)
BOTH = replace(CALENDAR, requirements=USER.requirements, requester=USER.requester)
NO_REQUESTER = ControlRequests()


def bounds(lower: int, upper: int) -> Requirements:
    return {"job": ParallelismRange(lower, upper)}


def policy(lower: int = 1, upper: int = 6, **changes: Any) -> PublishedPolicy:
    advice = PublishedAdvice(bounds=bounds(lower, upper), reason="busy", source="load", at=START, since=START)
    return replace(PublishedPolicy(kind="LoadPolicy", advice=advice), **changes)


def having(lower: int, upper: int) -> SchedulerState:
    return replace(DECLARED, requirements=bounds(lower, upper))


def resolved(
    requests: ControlRequests,
    advice: PublishedPolicy | None = None,
    state: SchedulerState = DECLARED,
    origin: RequirementsOrigin | None = None,
    limits: ReportedLimits = NO_LIMITS,
    now: datetime = START,
) -> Resolution:
    source = None if origin is None else RequirementsSource(origin=origin, name="x")
    return resolve(state, requests, lambda _: advice, limits, source, now)


def summary(found: Resolution) -> tuple[str, int, int]:
    return found.source.origin.value, found.requirements["job"].lower, found.requirements["job"].upper


@pytest.mark.parametrize(
    ("requests", "advice", "expected"),
    [
        (BOTH, policy(), ("USER", 2, 2)),
        (CALENDAR, policy(), ("POLICY", 1, 6)),
        (CALENDAR, policy(dry_run=True), ("CALENDAR", 3, 3)),
        (CALENDAR, None, ("CALENDAR", 3, 3)),
        (NO_REQUESTER, policy(), ("POLICY", 1, 6)),
        (NO_REQUESTER, policy(dry_run=True), ("DAG", 1, 4)),
        (NO_REQUESTER, None, ("DAG", 1, 4)),
    ],
)
def test_source_with_the_highest_precedence_sets_the_requirements(
    requests: ControlRequests, advice: PublishedPolicy | None, expected: tuple[str, int, int]
) -> None:
    assert summary(resolved(requests, advice)) == expected


@pytest.mark.parametrize("advice", [policy(), None])
def test_override_that_is_cleared_or_expired_releases_the_requirements(advice: PublishedPolicy | None) -> None:
    cleared = ControlRequests(requirements={"job": ParallelismRange(-1, -1)})
    expired = ControlRequests(requirements={"job": ParallelismRange(2, 2)}, requester=Requester(expires_at=START))
    expected = ("DAG", 1, 4) if advice is None else ("POLICY", 1, 6)
    for requests in (cleared, expired):
        assert summary(resolved(requests, advice, having(2, 2))) == expected
    assert summary(resolved(expired, advice, now=START - timedelta(seconds=1))) == ("USER", 2, 2)


@pytest.mark.parametrize("requested", [None, {}, {"other": 1}, "x"])
def test_request_in_another_form_counts_as_missing(requested: object) -> None:
    found = resolved(decode({"requirements": {"value": requested}}), state=having(2, 3))
    assert (summary(found), found.refused) == (("DAG", 1, 4), "")


@pytest.mark.parametrize("name", ["requirements", "calendar"])
def test_request_that_the_job_cannot_have_is_refused_with_every_violation(name: str) -> None:
    requests = ControlRequests(**{name: {"job": ParallelismRange(3, 9)}})  # type: ignore[arg-type]
    found = resolved(requests, policy())
    assert summary(found) == ("POLICY", 1, 6)
    assert "exceeds its maximum parallelism 8" in found.refused
    assert found.refused.endswith("They are ignored.")


@pytest.mark.parametrize(
    ("requests", "advice", "expected"),
    [
        (ControlRequests(requirements=bounds(1, 8)), None, ("USER", 3, 5)),
        (ControlRequests(calendar=bounds(1, 2)), None, ("CALENDAR", 3, 3)),
        (NO_REQUESTER, policy(1, 2), ("POLICY", 3, 3)),
        (NO_REQUESTER, None, ("DAG", 3, 4)),
    ],
)
def test_limits_bound_every_source(
    requests: ControlRequests, advice: PublishedPolicy | None, expected: tuple[str, int, int]
) -> None:
    limits = ReportedLimits(inputs={"job": 5}, gangs={"q": 3})
    assert summary(resolved(requests, advice, limits=limits)) == expected


def test_bounds_of_the_dag_within_limits_are_not_those_of_a_policy() -> None:
    found = resolved(NO_REQUESTER, policy(advice=None), having(1, 2), limits=ReportedLimits(inputs={"job": 2}))
    assert summary(found) == ("DAG", 1, 2)


def test_requirements_that_come_into_force_next_are_active() -> None:
    job = Scenario(1, 4, slot_request_max_interval=5).given_waiting()
    job.apply_without_timers(job.requirements(2, 3))
    assert latest_requirements(job.state) == bounds(2, 3)


def test_reactive_job_follows_a_user_and_neither_a_policy_nor_a_calendar() -> None:
    assert summary(resolved(USER, policy(), REACTIVE)) == ("USER", 2, 2)
    assert summary(resolved(CALENDAR, policy(), REACTIVE)) == ("DAG", 1, 8)


@pytest.mark.parametrize(
    ("problem", "state", "origin", "expected"),
    [
        (None, having(2, 3), RequirementsOrigin.POLICY, ("POLICY", 2, 3)),
        (None, having(2, 3), RequirementsOrigin.USER, ("POLICY", 2, 3)),
        (None, having(2, 8), RequirementsOrigin.USER, ("DAG", 1, 4)),
        ("it fails", having(2, 8), RequirementsOrigin.POLICY, ("POLICY", 2, 8)),
        ("it fails", having(2, 3), RequirementsOrigin.USER, ("DAG", 1, 4)),
    ],
)
def test_policy_without_advice_keeps_the_requirements_unless_they_are_a_former_override(
    problem: str | None, state: SchedulerState, origin: RequirementsOrigin, expected: tuple[str, int, int]
) -> None:
    assert summary(resolved(NO_REQUESTER, policy(advice=None, problem=problem), state, origin)) == expected


@pytest.mark.parametrize("advice", [None, policy(dry_run=True)])
def test_requirements_of_a_policy_that_was_removed_or_only_reports_are_released(advice: PublishedPolicy | None) -> None:
    assert summary(resolved(NO_REQUESTER, advice, having(2, 3), RequirementsOrigin.POLICY)) == ("DAG", 1, 4)
