"""Scenarios from seeds."""

from __future__ import annotations

import inspect

from tests.lab.fleet.faults import Faults
from tests.lab.fleet.invariants.recovery import MAX_LOWER_BOUND
from tests.lab.fleet.seeds import KINDS, scenario_of


def test_a_seed_gives_the_same_scenario_each_time():
    assert scenario_of(7) == scenario_of(7)
    assert scenario_of(7) != scenario_of(8)


def test_each_kind_of_event_is_a_fault_and_each_fault_is_a_kind_of_event():
    methods = {name for name, _ in inspect.getmembers(Faults, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"plan"} == set(KINDS)


def test_all_kinds_of_events_occur_in_a_few_hundred_seeds():
    seen = {event.kind for seed in range(300) for event in scenario_of(seed).events}
    assert seen == set(KINDS)


def test_the_faults_end_before_the_recovery_begins():
    scenarios = [scenario_of(seed) for seed in range(100)]
    assert all(event.at + event.duration <= it.faults_end_s for it in scenarios for event in it.events)


def test_the_cluster_has_the_slots_for_the_lower_bounds_of_all_jobs():
    for seed in range(100):
        scenario = scenario_of(seed)
        jobs = [job for job in scenario.jobs if job.bounds[0] <= MAX_LOWER_BOUND]
        assert sum(scenario.workers) >= sum(1 + job.bounds[0] for job in jobs)


def test_some_scenarios_have_one_job_that_requires_more_slots_than_the_cluster_can_have():
    scenarios = [scenario_of(seed) for seed in range(100)]
    oversized = [[job for job in it.jobs if job.bounds[0] > sum(it.workers)] for it in scenarios]
    assert {len(jobs) for jobs in oversized} == {0, 1}


def test_some_jobs_of_some_scenarios_have_a_rescale_policy():
    policies = [{job.has_policy for job in scenario_of(seed).jobs} for seed in range(100)]
    assert {False} in policies
    assert {False, True} in policies


def test_the_number_of_jobs_can_be_given():
    assert len(scenario_of(1, jobs=40).jobs) == 40
