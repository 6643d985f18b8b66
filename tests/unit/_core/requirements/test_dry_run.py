"""The consequence of other requirements, as the scheduler computes it before a user sets them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.requirements.dry_run import Consequence, Preview, preview
from airflow_adaptive._core.scheduler.events import RequirementsChanged
from airflow_adaptive._core.scheduler.machine import step
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import Scenario

COOLDOWN = timedelta(seconds=30)


def running(slots: int, **options: Any) -> Scenario:
    """A job of 1 to 4, long after it started, on so many slots; nothing else is there."""
    job = Scenario(1, 4, **{"resource_stabilization_timeout": 0, **options}).given_executing(slots)
    return job.after(3600)


def dry_run(job: Scenario, lower: int, upper: int) -> Preview:
    before = job.state
    answer = preview(job.state, {"job": ParallelismRange(lower, upper)}, job.now)
    assert job.state is before
    return answer


def test_lower_ceiling_rescales_as_soon_as_a_batch_is_committed() -> None:
    job = running(4)
    answer = dry_run(job, 1, 2)
    assert (answer.consequence, answer.tier) == (Consequence.RESCALE, Tier.QUERY)
    assert (answer.before, answer.after) == ({"job": 4}, {"job": 2})
    assert answer.held_back_until is None
    assert answer.at is not None
    assert job.now <= answer.at <= job.now + timedelta(minutes=2)
    assert "4 slot(s) are available" in answer.reason


def test_rescale_within_the_cooldown_is_held_back_until_its_end() -> None:
    job = Scenario(1, 4, resource_stabilization_timeout=0).given_executing(4).after(5)
    answer = dry_run(job, 1, 2)
    assert answer.consequence is Consequence.RESCALE
    assert answer.held_back_until == job.now - timedelta(seconds=5) + COOLDOWN
    assert answer.at is not None
    assert answer.at >= answer.held_back_until


def test_what_the_preview_reports_is_what_happens() -> None:
    job = running(4)
    answer = dry_run(job, 1, 2)
    assert answer.at is not None
    job.when_requirements(1, 2).after((answer.at - job.now).total_seconds())
    transitions = [step.transition for step in job.steps if step.transition is not None]
    (restart,) = [move for move in transitions if move.target == "Restarting"]
    assert (restart.at, restart.reason) == (answer.at, answer.reason)
    assert transitions[-1].after == answer.after


def test_higher_ceiling_waits_for_slots_that_the_job_was_not_offered() -> None:
    answer = dry_run(running(4), 1, 6)
    assert (answer.consequence, answer.missing_slots) == (Consequence.WAIT_FOR_SLOTS, 2)
    assert (answer.before, answer.after, answer.tier) == ({"job": 4}, {"job": 6}, Tier.QUERY)
    assert answer.at is None


def test_higher_ceiling_takes_slots_that_are_offered() -> None:
    job = Scenario(1, 2, resource_stabilization_timeout=0).given_executing(2).when_slots(held=2, free=2).after(3600)
    answer = dry_run(job, 1, 4)
    assert (answer.consequence, answer.after) == (Consequence.RESCALE, {"job": 4})


def test_same_requirements_lead_to_nothing() -> None:
    answer = dry_run(running(4), 1, 4)
    assert (answer.consequence, answer.reason) == (Consequence.NOTHING, "the requirements are unchanged")


def test_higher_lower_bound_within_what_is_there_leads_to_nothing() -> None:
    answer = dry_run(running(2), 2, 4)
    assert answer.consequence is Consequence.NOTHING
    assert "the job still waits for 2 slot(s)" in answer.reason


def test_lower_bound_above_what_is_there_stops_the_job() -> None:
    answer = dry_run(running(2), 3, 4)
    assert (answer.consequence, answer.tier, answer.missing_slots) == (Consequence.STOP_AND_WAIT, Tier.DRIVER, 1)
    assert "below the lower bound" in answer.reason
    assert answer.held_back_until is None


def test_job_that_keeps_running_below_its_lower_bound_waits_for_slots() -> None:
    answer = dry_run(running(2, below_lower_bound="keep_running"), 3, 4)
    assert (answer.consequence, answer.missing_slots) == (Consequence.WAIT_FOR_SLOTS, 2)


def test_increase_that_is_not_worth_a_rescale_leads_to_nothing() -> None:
    job = Scenario(1, 8, resource_stabilization_timeout=0, min_parallelism_increase=3).given_executing(2)
    job.when_slots(held=2, free=1).after(3600)
    assert dry_run(job, 2, 8).consequence is Consequence.NOTHING


def test_change_that_is_forced_after_a_while_is_foreseen() -> None:
    options: dict[str, Any] = {"min_parallelism_increase": 3, "scaling_interval_max": 600}
    job = Scenario(1, 2, resource_stabilization_timeout=0, **options).given_executing(2)
    job.when_slots(held=2, free=1).after(60)
    answer = dry_run(job, 1, 8)
    assert (answer.consequence, answer.after) == (Consequence.RESCALE, {"job": 3})
    assert answer.reason.startswith("forced after scaling_interval_max")


def test_job_that_waits_starts_when_less_is_enough() -> None:
    job = Scenario(3, 4, resource_stabilization_timeout=10).given_waiting(free=2)
    answer = dry_run(job, 1, 4)
    assert (answer.consequence, answer.before, answer.after) == (Consequence.START, None, {"job": 2})
    assert (answer.tier, answer.at) == (Tier.DRIVER, job.now + timedelta(seconds=10))


def test_job_that_waits_goes_on_waiting_when_more_is_needed() -> None:
    answer = dry_run(Scenario(3, 4).given_waiting(free=2), 4, 4)
    assert (answer.consequence, answer.missing_slots, answer.after) == (Consequence.WAIT_FOR_SLOTS, 2, {"job": 4})


@pytest.mark.parametrize("interval", [0, 5])
def test_declarations_that_are_collected_are_waited_for(interval: int) -> None:
    job = running(4, slot_request_max_interval=interval)
    answer = dry_run(job, 1, 2)
    assert answer.consequence is Consequence.RESCALE
    assert len(answer.decisions) >= 1


def test_job_on_its_way_follows_later() -> None:
    answer = dry_run(Scenario(1, 4, resource_stabilization_timeout=0).given_deploying(2), 1, 2)
    assert answer.consequence is Consequence.LATER
    assert "when it leaves the state Deploying" in answer.reason


def test_job_that_has_just_lost_slots_recovers_first() -> None:
    job = running(4).apply_without_timers(running(4).slots(held=3))
    lost = step(job.state, RequirementsChanged(at=job.now, requirements=job.state.requirements)).state
    answer = preview(lost, {"job": ParallelismRange(1, 3)}, job.now)
    assert answer.consequence is Consequence.LATER


def test_controller_of_the_jobs_own_is_not_run() -> None:
    job = running(4)
    options = replace(job.state.options, scale_up_controller="tests.unit._core.requirements.test_dry_run:Forbidden")
    answer = preview(replace(job.state, options=options), {"job": ParallelismRange(1, 2)}, job.now)
    assert answer.consequence is Consequence.RESCALE


class Forbidden:
    """A controller that must not be made."""

    def __init__(self) -> None:
        raise AssertionError("code that a mirror names was run")
