"""Reasons for no transition are reported once, up to a limit."""

from dataclasses import replace

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.events import SlotsChanged
from airflow_adaptive._core.scheduler.history.reported_reasons import MAX_REPORTED
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import Scenario
from tests.support.scheduler.rescale_scenarios import (
    idle,
)


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
