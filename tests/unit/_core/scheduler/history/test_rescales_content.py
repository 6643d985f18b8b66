"""The content of the record of a rescale, and its downtime."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.scheduler.events import PlanActivated
from airflow_adaptive._core.scheduler.history.rescales import MAX_FAILURE_CHARACTERS, MAX_STATES
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.snapshot import decode, encode
from airflow_adaptive._core.scheduler.timeline import (
    Amounts,
    Rescale,
)
from tests.lab.scenario import Scenario
from tests.support.scheduler.rescale_scenarios import ENDS, history, idle, newest, redeploying, scheduled

SECOND = timedelta(seconds=1)
AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def test_initial_schedule_reports_states_from_creation_to_execution():
    job = Scenario(lower=1, upper=4).given_executing(2)
    initial = newest(job)
    began = initial.start
    assert [(span.state, (span.left - began).total_seconds()) for span in initial.states] == [
        ("Created", 0),
        ("WaitingForResources", 10),
        ("Deploying", 10),
        ("Executing", 10),
    ]
    assert initial.end == began + 10 * SECOND
    assert (initial.tier, initial.downtime, initial.failure) == (Tier.DRIVER, None, None)


def test_record_reports_what_was_desired_what_sufficed_and_what_came_of_it():
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 2), slot_sharing_group="in"),
        JobVertex(name="count", parallelism=ParallelismRange(2, 6), slot_sharing_group="out"),
        JobVertex(name="write", parallelism=ParallelismRange(1, 3), slot_sharing_group="out"),
    )
    graph = JobGraph(job="flights", vertices=vertices)
    job = Scenario(graph=graph, **AT_ONCE).given_executing(4).when_slots(held=4, free=4).when_slots(held=8)
    job.when_plan_activated()
    assert newest(job).vertices == Amounts(
        desired={"read": 2, "count": 6, "write": 3},
        sufficient={"read": 1, "count": 2, "write": 1},
        before={"read": 1, "count": 3, "write": 3},
        after={"read": 2, "count": 6, "write": 3},
    )
    assert newest(job).groups == Amounts(
        desired={"in": 2, "out": 6},
        sufficient={"in": 1, "out": 2},
        before={"in": 1, "out": 3},
        after={"in": 2, "out": 6},
    )


def test_first_record_has_nothing_before_and_nothing_after_until_there_is_a_plan():
    job = scheduled()
    assert (newest(job).vertices.before, newest(job).groups.before) == (None, None)
    assert (newest(job).vertices.after, newest(job).groups.after) == (None, None)
    job.when_slots(free=4)
    assert (newest(job).vertices.after, newest(job).groups.after) == ({"job": 4}, {"default": 4})


def test_numbers_count_records_requirements_and_attempts():
    job = (
        idle()
        .when_query_failed()
        .after(1)
        .when_plan_activated()
        .after(40)
        .when_requirements(1, 4)
        .when_requirements(1, 5)
    )
    job.when_slots(held=2, free=2)
    numbers = [(record.number, record.requirements, record.attempt) for record in history(job)]
    assert numbers == [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 3, 1)]


def test_rescale_on_the_living_driver_takes_the_query_tier():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    assert newest(job).tier is Tier.QUERY


def test_tier_is_the_highest_that_was_taken():
    job = Scenario().given_executing(4).when_slots(held=2, free=2).after(5)
    assert newest(job).tier is Tier.EXECUTORS
    job.when_driver_ended().after(1).when_slots(free=4)
    assert newest(job).tier is Tier.DRIVER


def test_failure_is_cut_short():
    job = idle().when_query_failed(Failure(error_class="E", message="x" * 5000))
    assert len(newest(job).failure or "") == MAX_FAILURE_CHARACTERS


@pytest.mark.parametrize("end", ["failure without a way on", "no slots for the start", "first plan not deployed"])
def test_rescale_that_ended_with_a_failure_reports_it(end: str):
    life, _, _ = ENDS[end]
    assert newest(life()).failure


def test_states_of_a_record_are_bounded():
    job = Scenario(lower=1, upper=40).given_executing(40).after(40)
    for left in range(39, 9, -1):
        job.now += SECOND
        job.when_slots(held=left)
    rescale = newest(job)
    assert len(rescale.states) == MAX_STATES
    assert rescale.start == job.now - 29 * SECOND
    assert rescale.states[-1].left == job.now


def test_record_survives_json():
    for life, _, _ in ENDS.values():
        for rescale in history(life()):
            assert decode(Rescale, json.loads(json.dumps(encode(rescale)))) == rescale


def reported(job: Scenario, downtime: timedelta | None) -> Scenario:
    event = job.plan_activated()
    return job.when(replace(event, downtime=downtime))


def test_downtime_lasts_from_the_end_of_one_plan_to_the_start_of_the_next():
    job = idle().when_query_failed().after(1)
    job.now += 4 * SECOND
    assert newest(job.when_plan_activated()).downtime == 5 * SECOND


def test_downtime_that_the_driver_measured_is_believed():
    job = idle().when_query_failed().after(4)
    assert newest(reported(job, timedelta(milliseconds=1500))).downtime == timedelta(milliseconds=1500)


def test_downtime_ends_when_the_plan_is_active_on_fewer_slots_than_it_will_have():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().after(10).when_slots(held=4)
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 3 * SECOND)


def test_downtimes_of_one_rescale_add_up():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().when_slots(held=3)
    job.now += 2 * SECOND
    job.when_plan_activated()
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 5 * SECOND)


def test_downtime_goes_on_through_other_requirements_and_failures():
    job = Scenario(lower=1, upper=2).given_executing(2).when_query_failed()
    job.now += 2 * SECOND
    job.fire_due_timers().when_requirements(1, 3)
    job.now += 2 * SECOND
    job.when_driver_ended().when_slots().after(1000).when_slots(free=2).after(10).when_slots(held=2)
    waited = job.now - history(job)[1].start
    assert newest(job.when_plan_activated()).downtime == waited > 1000 * SECOND


def test_rescale_of_an_update_keeps_what_the_job_went_through_before():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_plan_activated().when_requirements(1, 3)
    assert (newest(job).trigger_cause, newest(job).tier, newest(job).downtime) == (
        "UPDATE_REQUIREMENT",
        Tier.QUERY,
        3 * SECOND,
    )


def test_report_of_another_plan_ends_no_downtime():
    job = redeploying()
    job.when(PlanActivated(at=job.now, epoch=job.state.epoch, version=1))
    assert newest(job).downtime is None
    assert job.state.timeline.stopped is not None
