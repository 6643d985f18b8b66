"""Policies that fail, loops that are killed, and clocks that jump."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_adaptive._core.protocol.codec import decode_journal
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, QueryReport
from airflow_adaptive._core.requirements.control_requests import ControlRequests, DesiredState
from airflow_adaptive._core.requirements.resolver import RequirementsResolver, ResolverInput, ResolverMemory
from airflow_adaptive._core.scheduler.snapshot import encode
from airflow_adaptive._engine.loop import RunLimits
from airflow_adaptive.autoscaling import advisor as advisors
from airflow_adaptive.autoscaling.calendar.declaration import window
from airflow_adaptive.autoscaling.calendar.scheduled_policy import ScheduledPolicy
from airflow_adaptive.autoscaling.load.load_policy import LoadPolicy
from tests.lab.fakes.manual_clock import START
from tests.lab.scenario import Scenario
from tests.support.examples import examples
from tests.support.runtime.policy_simulation import (
    Load,
    by,
    calendar,
    following,
    loaded,
    policy_of,
    reasons,
    request_bounds,
    roomy,
    running_on,
    until,
)

MINUTES = 60.0


def test_policy_that_raises_leaves_the_job_as_it_is_and_reports_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    job = following(calendar(look_ahead=None))
    until(job, 10 * MINUTES)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a calendar of no days")

    monkeypatch.setattr(ScheduledPolicy, "advise_at", broken)
    with caplog.at_level(logging.WARNING):
        assert running_on(until(job, 80 * MINUTES)) == 2
    assert caplog.text.count("The rescale policy is not followed: ZeroDivisionError: a calendar of no days") == 1
    assert sum("is not followed" in text for text in reasons(job)) == 1
    assert policy_of(job)["problem"] == "ZeroDivisionError: a calendar of no days"


def test_bounds_of_a_user_that_expire_leave_a_job_whose_policy_fails_to_its_dag():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    request_bounds(job, (1, 1), expires=10 * MINUTES)
    assert running_on(until(job, 9 * MINUTES)) == 1
    assert running_on(until(job, 11 * MINUTES)) == 4
    assert by(job) == ("DAG", "dag")


def test_bounds_of_a_user_that_expire_before_the_load_policy_knows_anything_stay_until_it_does():
    job = following(LoadPolicy(), (1, 8))
    request_bounds(job, (2, 2), expires=5 * MINUTES)
    assert running_on(until(job, 10 * MINUTES)) == 2
    assert by(job) == ("POLICY", "LoadPolicy")
    load = Load(job, rate=700.0)
    job.drivers.measures, job.drivers.commits = load, False
    assert running_on(until(job, 20 * MINUTES)) == 8


def test_job_that_is_deployed_with_other_bounds_does_not_jump_to_them_before_its_policy_is_evaluated():
    job = following(calendar(window("always", (1, 2), start="00:00", end="24:00")), (1, 2))
    until(job, 10 * MINUTES)
    job.spec = replace(job.spec, graph=roomy((1, 8)).spec.graph)
    assert running_on(until(job, 20 * MINUTES)) == 2
    assert not any("by the DAG" in text for text in reasons(job))


def test_policy_that_wants_more_than_the_job_can_have_changes_nothing_and_names_it():
    job = following(calendar(window("too much", 9, start="00:00", end="24:00")))
    assert running_on(until(job, 10 * MINUTES)) == 4
    assert "above its max_parallelism 4: decrease the bound" in policy_of(job)["problem"]


def test_policy_that_this_version_can_not_read_costs_the_job_nothing():
    job = roomy()
    job.spec = replace(job.spec, rescale_policy='{"type": "PolicyOfTheFuture"}')
    assert running_on(until(job, 10 * MINUTES)) == 4
    assert "this version cannot read the policy" in policy_of(job)["problem"]


def test_memory_that_can_not_be_read_is_begun_again_with_a_note_in_the_timeline():
    job, load = loaded(LoadPolicy(), (1, 8))
    load.rate = 300.0
    before = running_on(until(job, 10 * MINUTES))
    newest = max(job.directory.journal)
    document = json.loads(job.directory.journal[newest])
    document["memory"]["resolver"]["policy"]["content"] = {"queries": "of another version"}
    job.directory.journal[newest] = json.dumps(document).encode()
    assert running_on(until(job, 20 * MINUTES)) == before
    assert sum("memory of the policy is invalid and is discarded" in text for text in reasons(job)) == 1


def test_loop_that_is_killed_between_the_advice_and_the_deed_is_followed_by_one_that_does_it():
    job = following(calendar(look_ahead=None))
    until(job, 59 * MINUTES)
    write = job.directory.create

    async def killed(document: Any) -> bool:
        if any("morning" in decision["reason"] for decision in document.decisions):
            raise KeyboardInterrupt
        return await write(document)

    job.directory.create = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        until(job, 62 * MINUTES)
    job.directory.create = write  # type: ignore[method-assign]
    assert running_on(until(job, 63 * MINUTES)) == 4


def test_another_policy_takes_effect_when_the_job_is_taken_up_with_new_code():
    job = following(calendar(look_ahead=None))
    assert running_on(until(job, 10 * MINUTES)) == 2
    job.follow(calendar(window("always", 3, start="00:00", end="24:00")))
    assert running_on(until(job, 20 * MINUTES)) == 3
    job.follow(None)
    assert running_on(until(job, 30 * MINUTES)) == 4, "what its DAG declares"
    assert by(job) == ("DAG", "dag")


def test_what_a_policy_has_learned_outlives_the_loop():
    job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
    load.rate = 60.0
    until(job, 20 * MINUTES)
    newest = decode_journal(job.directory.journal[max(job.directory.journal)])
    assert newest.memory["resolver"]["policy"]["content"]["rescales"]


def test_polls_that_change_nothing_write_nothing():
    job, _ = loaded(LoadPolicy(), (1, 2))
    until(job, 20 * MINUTES)
    before = len(job.directory.journal)
    until(job, 20 * MINUTES + 25 * MINUTES)
    assert len(job.directory.journal) - before <= 3, "the next loop's claim, and what keeps the memory young"


def test_clock_that_was_set_back_or_forward_between_two_loops_leads_to_no_rescale_by_load():
    for hours in (-5, 5):
        job, load = loaded(LoadPolicy(down_delay=timedelta(minutes=5)), (1, 8))
        load.rate = 300.0
        before = running_on(until(job, 10 * MINUTES))
        load.rate, known = 290.0, len(job.drivers.started)
        job.clock.ahead += timedelta(hours=hours)
        state = job.run(RunLimits(recycle_at=job.clock.now() + timedelta(minutes=20)))
        assert (running_on(state), len(job.drivers.started)) == (before, known)


def test_suspended_job_is_resumed_within_what_the_policy_requests():
    job = following(calendar(look_ahead=None))
    job.clock.at(
        10 * MINUTES, lambda: setattr(job.store, "requests", ControlRequests(desired_state=DesiredState.SUSPENDED))
    )
    job.run_to_end()
    job.store.requests, job.spec = ControlRequests(), replace(job.spec, attempt="attempt-2")
    job.clock._now = START + timedelta(minutes=70)
    assert running_on(job.run(RunLimits(recycle_at=START + timedelta(minutes=75)))) == 4


VALUES = st.one_of(st.none(), st.floats(), st.integers(), st.booleans(), st.text(max_size=3))


@settings(max_examples=examples(25))
@given(
    reports=st.lists(
        st.dictionaries(
            st.sampled_from(
                ["committed", "batch_rows", "batch_duration_ms", "input_rate", "backlog", "trigger_interval_ms", "idle"]
            ),
            VALUES,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_a_driver_reports_the_bounds_stay_within_the_declared_ones(reports: list[dict[str, Any]]):
    seen = advisors.PolicyAdvisor(LoadPolicy())
    within_bounds(seen, reports)


def within_bounds(seen: advisors.PolicyAdvisor, reports: list[dict[str, Any]]) -> None:
    """Look at these reports one after the other, on a job that executes."""
    scenario, resolver, memory = Scenario(1, 4), RequirementsResolver(seen), ResolverMemory()
    scenario.given_executing(2)
    for number, changes in enumerate(reports * 3):
        given: dict[str, Any] = {"name": "q", "active": True}
        query = QueryReport(**(given | changes))
        status = DriverStatus(
            job="job", epoch=1, nonce="n", sequence=number, at="", state=DriverState.RUNNING, queries=(query,)
        )
        at = START + timedelta(seconds=20 * number)
        given_now = ResolverInput(
            state=scenario.state, control_requests=ControlRequests(), status=status, costs={}, at=at, memory=memory
        )
        resolved, memory = resolver.resolve(given_now)
        bounds = resolved.requirements["job"]
        assert 1 <= bounds.lower <= bounds.upper <= 4
        json.dumps(encode(memory.lasting), allow_nan=False)
