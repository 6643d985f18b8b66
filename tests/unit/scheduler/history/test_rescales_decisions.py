"""Decisions against a rescale, clocks that go back, and jobs without a timeline."""

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.events import CancelRequested, SlotsChanged
from airflow_adaptive.scheduler.history.rescales import MAX_REPORTED
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.timeline import (
    Timeline,
)
from airflow_adaptive.testing.scenario import Scenario
from tests.support.scheduler.rescale_scenarios import (
    ScenarioBuilder,
    failed_over,
    history,
    idle,
    newest,
    offered,
    redeploying,
)

SECOND = timedelta(seconds=1)


def test_clock_that_goes_back_makes_no_negative_times():
    job = idle().when_query_failed().after(1)
    job.now -= 100 * SECOND
    job.when_plan_activated()
    rescale = newest(job)
    assert rescale.end is not None
    assert rescale.start <= rescale.end
    assert rescale.downtime == timedelta(0)


@pytest.mark.parametrize("life", [redeploying, offered, failed_over, idle])
def test_job_of_a_version_without_a_timeline_continues(life: ScenarioBuilder):
    job = life()
    job.steps.clear()
    job.state = replace(job.state, timeline=Timeline())
    job.after(200).when_slots(held=4).when_plan_activated().when_canceled()
    assert job.state.timeline.rescale is None
    assert all(record.number == number for number, record in enumerate(history(job), start=1))


def test_reason_for_no_transition_is_reported_once():
    job = Scenario(min_parallelism_increase=3, upper=8).given_executing(2)
    for _ in range(3):
        job.when_slots(held=2, free=1).when_slots(held=2, free=0)
    assert job.reasons.count("{'job': 2} -> {'job': 3} is possible, but is below the minimum increase") == 1


def test_reason_is_reported_again_after_a_transition():
    job = Scenario().given_waiting()
    job.when_requirements(1, 4).when_requirements(1, 4)
    reason = "the requirements are unchanged"
    assert job.reasons.count(reason) == 1
    job.when_slots(free=4).when_requirements(1, 4)
    assert job.reasons.count(reason) == 2


def test_reasons_beyond_the_limit_change_nothing_that_is_saved():
    job = Scenario(min_parallelism_increase=100, upper=80).given_executing(2)
    for free in range(1, MAX_REPORTED + 1):
        job.when_slots(held=2, free=free)
    before = job.state
    job.when_slots(held=2, free=40)
    assert job.reason == "{'job': 2} -> {'job': 42} is possible, but is below the minimum increase"
    assert replace(job.state, offers=()) == replace(before, offers=())
    assert len(before.timeline.reported) == MAX_REPORTED


def test_long_reasons_are_remembered_by_their_ends():
    job = idle()
    name = "a" * 400
    vertex = JobVertex(name=name, parallelism=ParallelismRange(3, 4))
    job = Scenario(graph=JobGraph(job="job", vertices=(vertex,))).given_waiting()
    job.when_slots(free=1).when_slots(free=2)
    assert len({len(mark) for mark in job.state.timeline.reported}) == 1
    assert all(len(mark) < 200 for mark in job.state.timeline.reported)


def test_step_that_changes_nothing_costs_nothing():
    state = idle().state
    same = machine.step(state, SlotsChanged(at=state.current.since, offers=state.offers))  # type: ignore[union-attr]
    assert same.state is state


def test_stale_events_leave_the_timeline_alone():
    job = idle().when_canceled()
    again = machine.step(job.state, CancelRequested(at=job.now))
    assert again.rescale is None
