"""The precedence of the sources as a pure function: user > policy > calendar > DAG."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.advice import Advice, PolicyAdvice
from airflow_adaptive._core.requirements.control_requests import ControlRequests, Requester, decode
from airflow_adaptive._core.requirements.resolver import resolve
from airflow_adaptive._core.requirements.sources import (
    ActiveRequirements,
    DeclaredRequirements,
    RequirementsOrigin,
    RequirementsSource,
    ResolvedRequirements,
    latest_requirements,
)
from airflow_adaptive._core.scheduler.requirements import ParallelismRange, Requirements
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario

DECLARED = DeclaredRequirements(requirements={"job": ParallelismRange(1, 4)}, max_parallelism={"job": 8})
REACTIVE = DeclaredRequirements(requirements={"job": ParallelismRange(1, 8)}, max_parallelism={"job": 8}, reactive=True)
USER = ControlRequests(requirements={"job": (2, 2)}, requester=Requester(requested_by="alice", via="REST"))
CALENDAR = ControlRequests(calendar={"job": (3, 3)}, calendar_requester=Requester(requested_by="dag/task/run"))
BOTH = ControlRequests(requirements={"job": (2, 2)}, calendar={"job": (3, 3)})
NO_REQUESTER = ControlRequests()


def bounds(lower: int, upper: int) -> Requirements:
    return {"job": ParallelismRange(lower, upper)}


def policy(lower: int = 1, upper: int = 6, **changes: Any) -> PolicyAdvice:
    advice = Advice(bounds=bounds(lower, upper), reason="busy", source="load")
    return replace(PolicyAdvice(policy="LoadPolicy", advice=advice), **changes)


def active(lower: int = 1, upper: int = 4, origin: RequirementsOrigin | None = None) -> ActiveRequirements:
    source = None if origin is None else RequirementsSource(origin=origin, name="x")
    return ActiveRequirements(requirements=bounds(lower, upper), source=source)


def summary(resolved: ResolvedRequirements | None) -> tuple[str, int, int] | None:
    if resolved is None:
        return None
    return resolved.source.origin.value, resolved.requirements["job"].lower, resolved.requirements["job"].upper


@pytest.mark.parametrize(
    ("requests", "advice", "expected"),
    [
        (BOTH, policy(), ("USER", 2, 2)),
        (CALENDAR, policy(), ("POLICY", 1, 6)),
        (CALENDAR, policy(dry_run=True), ("CALENDAR", 3, 3)),
        (CALENDAR, None, ("CALENDAR", 3, 3)),
        (NO_REQUESTER, policy(), ("POLICY", 1, 6)),
        (NO_REQUESTER, policy(dry_run=True), None),
        (NO_REQUESTER, None, None),
    ],
)
def test_source_with_the_highest_precedence_sets_the_requirements(
    requests: ControlRequests, advice: PolicyAdvice | None, expected: tuple[str, int, int] | None
) -> None:
    assert summary(resolve(requests, advice, DECLARED, active(), START)) == expected


@pytest.mark.parametrize("advice", [policy(), None])
def test_override_that_is_cleared_or_expired_releases_the_requirements(advice: PolicyAdvice | None) -> None:
    cleared = ControlRequests(requirements={"job": (-1, -1)})
    expired = ControlRequests(requirements={"job": (2, 2)}, requester=Requester(expires_at=START))
    expected = ("DAG", 1, 4) if advice is None else ("POLICY", 1, 6)
    for requests in (cleared, expired):
        assert summary(resolve(requests, advice, DECLARED, active(2, 2), START)) == expected
    assert summary(resolve(expired, advice, DECLARED, active(), START - timedelta(seconds=1))) == ("USER", 2, 2)


@pytest.mark.parametrize("requested", [None, {}, {"other": 1}, "x"])
def test_requirements_that_can_not_hold_leave_those_active(requested: object) -> None:
    assert resolve(decode({"requirements": {"value": requested}}), None, DECLARED, active(2, 3), START) is None


def test_requirements_that_come_into_force_next_are_active() -> None:
    job = Scenario(1, 4, slot_request_max_interval=5).given_waiting()
    job.apply_without_timers(job.requirements(2, 3))
    assert latest_requirements(job.state) == bounds(2, 3)


def test_reactive_job_follows_a_user_and_neither_a_policy_nor_a_calendar() -> None:
    assert summary(resolve(USER, policy(), REACTIVE, active(), START)) == ("USER", 2, 2)
    assert summary(resolve(CALENDAR, policy(), REACTIVE, active(), START)) == ("DAG", 1, 8)


@pytest.mark.parametrize(
    ("problem", "now", "expected"),
    [
        (None, active(2, 3, RequirementsOrigin.POLICY), ("POLICY", 2, 3)),
        (None, active(2, 3, RequirementsOrigin.USER), ("POLICY", 2, 3)),
        (None, active(2, 8, RequirementsOrigin.USER), ("DAG", 1, 4)),
        ("it fails", active(2, 8, RequirementsOrigin.POLICY), ("POLICY", 2, 8)),
        ("it fails", active(2, 3, RequirementsOrigin.USER), ("DAG", 1, 4)),
    ],
)
def test_policy_without_advice_keeps_the_requirements_unless_they_are_a_former_override(
    problem: str | None, now: ActiveRequirements, expected: tuple[str, int, int]
) -> None:
    assert summary(resolve(NO_REQUESTER, policy(advice=None, problem=problem), DECLARED, now, START)) == expected


def test_requirements_of_a_policy_that_was_removed_are_released() -> None:
    resolved = resolve(NO_REQUESTER, None, DECLARED, active(2, 3, RequirementsOrigin.POLICY), START)
    assert summary(resolved) == ("DAG", 1, 4)
