"""The rescale history: which records there are, when they begin and end, and what they tell."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive.scheduler import machine
from airflow_adaptive.scheduler.events import CancelRequested, PlanActivated, SlotsChanged
from airflow_adaptive.scheduler.history.rescales import MAX_FAILURE_CHARACTERS, MAX_STATES, MAX_TOLD
from airflow_adaptive.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive.scheduler.policies.failure_handling import Failure
from airflow_adaptive.scheduler.policies.rescaling import Tier
from airflow_adaptive.scheduler.requirements import ParallelismRange
from airflow_adaptive.scheduler.snapshot import decode, encode
from airflow_adaptive.scheduler.timeline import (
    Amounts,
    Rescale,
    TerminalState,
    TerminatedReason,
    Timeline,
    TriggerCause,
)
from airflow_adaptive.testing.scenario import HOPELESS, TRANSIENT, Scenario

SECOND = timedelta(seconds=1)
AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def history(job: Scenario) -> list[Rescale]:
    """All records, the open one last."""
    closed = [step.rescale for step in job.steps if step.rescale is not None]
    under_way = job.state.timeline.rescale
    return closed if under_way is None else [*closed, under_way]


def newest(job: Scenario) -> Rescale:
    return history(job)[-1]


def told(job: Scenario) -> list[tuple[str, str | None]]:
    """Causes and reasons."""
    return [(record.trigger_cause.value, record.terminated_reason) for record in history(job)]


def states(rescale: Rescale) -> list[str]:
    return [span.state for span in rescale.states]


# ---- causes and ends ------------------------------------------------------------------------------------------------

ScenarioBuilder = Callable[[], Scenario]


def scheduled() -> Scenario:
    return Scenario(
        lower=1, upper=4, restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 1}
    ).given_waiting()


def idle(**options: Any) -> Scenario:
    """A job that runs on all it wants, with its cooldown over."""
    job = Scenario(lower=1, upper=2, restart_strategy={"type": "fixed-delay", "attempts": 1, "delay": 1}, **options)
    return job.given_executing(2).after(40)


def required() -> Scenario:
    """More is required than there is."""
    return idle().when_requirements(1, 8)


def offered() -> Scenario:
    """More is there than is used, and the job waits for the right moment."""
    return Scenario(lower=1, upper=8, restart_strategy="none").given_executing(2).when_slots(held=2, free=2)


def failed_over() -> Scenario:
    return idle().when_query_failed()


def redeploying() -> Scenario:
    """A failed job is deployed again."""
    return failed_over().after(1)


CAUSES: dict[TriggerCause, ScenarioBuilder] = {
    TriggerCause.INITIAL_SCHEDULE: scheduled,
    TriggerCause.UPDATE_REQUIREMENT: required,
    TriggerCause.NEW_RESOURCE_AVAILABLE: offered,
    TriggerCause.RECOVERABLE_FAILOVER: failed_over,
}

NO_CHANGE = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE

ENDS: dict[str, tuple[ScenarioBuilder, TriggerCause, TerminatedReason]] = {
    "first plan in force": (
        lambda: scheduled().when_slots(free=4).when_slots(held=4).when_in_force(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.SUCCEEDED,
    ),
    "required plan in force": (
        lambda: required().when_slots(held=2, free=6).after(70).when_slots(held=8).when_in_force(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.SUCCEEDED,
    ),
    "larger plan in force": (
        lambda: offered().after(200).when_slots(held=4).when_in_force(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.SUCCEEDED,
    ),
    "same plan in force again": (
        lambda: redeploying().when_in_force(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.SUCCEEDED,
    ),
    "other requirements before the start": (
        lambda: scheduled().when_requirements(1, 2),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements again": (
        lambda: required().when_requirements(1, 9),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements while slots settle": (
        lambda: offered().when_requirements(1, 9),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "other requirements after a failure": (
        lambda: failed_over().when_requirements(1, 9),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED,
    ),
    "requirements that change nothing, in the cooldown": (
        lambda: Scenario(upper=2).given_executing(2).when_requirements(1, 8).after(31),
        TriggerCause.UPDATE_REQUIREMENT,
        NO_CHANGE,
    ),
    "slots that are gone again": (
        lambda: offered().when_slots(held=2).after(200),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        NO_CHANGE,
    ),
    "end of the input before the plan is in force": (
        lambda: scheduled().when_slots(free=4).when_completed(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.JOB_FINISHED,
    ),
    "end of the input": (
        lambda: required().when_completed(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_FINISHED,
    ),
    "suspended": (
        lambda: offered().when_suspended().when_savepoint_completed().when_driver_ended(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_FINISHED,
    ),
    "suspended after a failure": (
        lambda: failed_over().when_suspended(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.JOB_FINISHED,
    ),
    "canceled before the start": (
        lambda: scheduled().when_canceled(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled": (
        lambda: required().when_canceled(),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled while slots settle": (
        lambda: offered().when_canceled(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_CANCELED,
    ),
    "canceled after a failure": (
        lambda: failed_over().when_canceled(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.JOB_CANCELED,
    ),
    "failure without a way on": (
        lambda: required().when_query_failed(HOPELESS),
        TriggerCause.UPDATE_REQUIREMENT,
        TerminatedReason.JOB_FAILED,
    ),
    "failure that may not be restarted": (
        lambda: offered().when_driver_ended(),
        TriggerCause.NEW_RESOURCE_AVAILABLE,
        TerminatedReason.JOB_FAILED,
    ),
    "no slots for the start": (
        lambda: scheduled().after(301),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
    "first plan not deployed": (
        lambda: Scenario(restart_strategy="none").given_waiting().when_slots(free=4).when_driver_ended(),
        TriggerCause.INITIAL_SCHEDULE,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
    "plan not deployed again": (
        lambda: redeploying().when_query_failed(),
        TriggerCause.RECOVERABLE_FAILOVER,
        TerminatedReason.EXCEPTION_OCCURRED,
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_record_is_open_while_a_rescale_is_under_way(cause: TriggerCause):
    rescale = CAUSES[cause]().state.timeline.rescale
    assert rescale is not None
    assert (rescale.trigger_cause, rescale.end, rescale.terminated_reason, rescale.terminal_state) == (
        cause,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("end", ENDS)
def test_rescale_ends_as_it_should(end: str):
    life, cause, reason = ENDS[end]
    ended = next(record for record in reversed(history(life())) if record.end is not None)
    assert (ended.trigger_cause, ended.terminated_reason) == (cause, reason)
    assert ended.terminal_state is reason.terminal_state


def test_every_cause_and_every_end_is_in_the_table():
    assert {cause for _, cause, _ in ENDS.values()} == set(TriggerCause)
    ends = {reason for _, _, reason in ENDS.values()}
    assert ends == set(TerminatedReason) - {TerminatedReason.JOB_FAILOVER_RESTARTING}


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (TerminatedReason.SUCCEEDED, TerminalState.COMPLETED),
        (TerminatedReason.EXCEPTION_OCCURRED, TerminalState.FAILED),
        (TerminatedReason.RESOURCE_REQUIREMENTS_UPDATED, TerminalState.IGNORED),
        (TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE, TerminalState.IGNORED),
        (TerminatedReason.JOB_FINISHED, TerminalState.IGNORED),
        (TerminatedReason.JOB_FAILED, TerminalState.IGNORED),
        (TerminatedReason.JOB_CANCELED, TerminalState.IGNORED),
        (TerminatedReason.JOB_FAILOVER_RESTARTING, TerminalState.IGNORED),
    ],
)
def test_reason_says_what_became_of_a_rescale(reason: TerminatedReason, state: TerminalState):
    assert reason.terminal_state is state


# ---- one record at a time -------------------------------------------------------------------------------------------


def test_job_that_has_not_been_started_has_no_record():
    job = Scenario().when_requirements(1, 2).when_canceled()
    assert history(job) == []


def test_job_that_runs_on_what_it_wants_has_no_open_record():
    job = Scenario().given_executing(4).after(600)
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_requirements_that_cannot_be_met_now_wait_for_slots_in_an_idle_job():
    job = required().after(10_000)
    assert newest(job).end is None
    job.when_slots(held=2, free=2).after(70).when_slots(held=4).when_in_force()
    assert told(job)[1] == ("UPDATE_REQUIREMENT", "SUCCEEDED")


def test_requirements_that_come_as_the_cooldown_ends_are_not_dropped_with_it():
    job = Scenario(upper=2).given_executing(2)
    job.now += 30 * SECOND
    job.when_requirements(1, 8)
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_requirements_that_change_nothing_are_no_rescale():
    job = idle().when_requirements(1, 2)
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_requirements_of_a_job_that_is_ending_are_no_rescale():
    assert len(history(idle().when_canceled().when_requirements(1, 8))) == 1


def test_slots_that_arrive_while_requirements_wait_are_the_same_rescale():
    job = required().when_slots(held=2, free=2)
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_slots_that_were_there_when_the_plan_came_into_force_are_the_next_rescale():
    job = Scenario(lower=1, upper=8).given_deploying(2).when_slots(held=2, free=4).when_in_force()
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("NEW_RESOURCE_AVAILABLE", None)]


def test_forced_rescale_has_a_record_too():
    job = Scenario(upper=8, min_parallelism_increase=4, scaling_interval_min=0, scaling_interval_max=60)
    job.given_executing(2).when_slots(held=2, free=1)
    assert len(history(job)) == 1
    job.after(61)
    assert newest(job).trigger_cause is TriggerCause.NEW_RESOURCE_AVAILABLE


def test_bound_that_was_raised_while_deploying_stops_the_job_in_a_record_of_its_own():
    job = Scenario().given_deploying(2).when_requirements(3, 4).when_slots(held=2).when_in_force()
    assert told(job) == [
        ("INITIAL_SCHEDULE", "RESOURCE_REQUIREMENTS_UPDATED"),
        ("UPDATE_REQUIREMENT", "SUCCEEDED"),
        ("UPDATE_REQUIREMENT", None),
    ]
    assert (newest(job).requirements, newest(job).attempt) == (2, 2)


def test_failover_takes_over_the_rescale_that_it_meets():
    job = required().after(5).when_query_failed()
    merged = newest(job)
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]
    assert (merged.number, merged.requirements, merged.attempt) == (2, 2, 1)
    assert (merged.start, states(merged)) == (job.now, ["Executing"])
    assert merged.failure == TRANSIENT.summary


def test_each_failed_deployment_begins_the_failover_anew():
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    for _ in range(3):
        job.when_query_failed().after(100)
    assert states(newest(job)) == ["Deploying", "Restarting", "WaitingForResources"]
    assert len(history(job)) == 2


def test_failed_stop_with_savepoint_is_no_rescale():
    job = idle().when_suspended().when_savepoint_failed()
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_failed_stop_with_savepoint_does_not_end_a_rescale():
    job = required().when_suspended().when_savepoint_failed()
    assert (newest(job).end, states(newest(job))) == (None, ["Executing", "StopWithSavepoint"])
    assert newest(job.after(31)).terminated_reason is NO_CHANGE


# ---- slots that are lost --------------------------------------------------------------------------------------------


def test_local_recovery_is_a_failover_without_downtime():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=2).after(5).when_slots(held=4)
    recovered = newest(job)
    assert (recovered.trigger_cause, recovered.terminated_reason) == ("RECOVERABLE_FAILOVER", "SUCCEEDED")
    assert (recovered.tier, recovered.downtime) == (Tier.EXECUTORS, timedelta(0))
    assert recovered.vertices.before == recovered.vertices.after == {"job": 4}
    assert recovered.failure == "2 of 4 slot(s) lost"
    assert states(recovered) == ["Executing", "RestartingLocally", "Executing"]


def test_smaller_plan_after_a_loss_is_the_same_failover():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=0).when_in_force()
    shrunk = newest(job)
    assert (shrunk.trigger_cause, shrunk.terminated_reason) == ("RECOVERABLE_FAILOVER", "SUCCEEDED")
    assert (shrunk.vertices.before, shrunk.vertices.after) == ({"job": 4}, {"job": 2})
    assert states(shrunk) == ["Executing", "RestartingLocally", "Restarting", "Deploying", "Executing"]


def test_query_that_fails_while_slots_are_replaced_goes_on_with_the_failover():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=2)
    began = newest(job)
    job.after(5).when_query_failed()
    assert (newest(job).number, newest(job).start) == (began.number, began.start)
    assert newest(job).failure == TRANSIENT.summary


def test_job_without_any_slots_waits_in_an_open_record():
    job = idle().when_slots().when_driver_ended().after(10_000)
    assert job.state.name == "WaitingForResources"
    assert told(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]


# ---- what a record tells --------------------------------------------------------------------------------------------


def test_initial_schedule_tells_states_from_creation_to_execution():
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


def test_record_tells_what_was_desired_what_sufficed_and_what_came_of_it():
    vertices = (
        JobVertex(name="read", parallelism=ParallelismRange(1, 2), slot_sharing_group="in"),
        JobVertex(name="count", parallelism=ParallelismRange(2, 6), slot_sharing_group="out"),
        JobVertex(name="write", parallelism=ParallelismRange(1, 3), slot_sharing_group="out"),
    )
    graph = JobGraph(job="flights", vertices=vertices)
    job = Scenario(graph=graph, **AT_ONCE).given_executing(4).when_slots(held=4, free=4).when_slots(held=8)
    job.when_in_force()
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
    job = idle().when_query_failed().after(1).when_in_force().after(40).when_requirements(1, 4).when_requirements(1, 5)
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
def test_rescale_that_ended_with_a_failure_tells_it(end: str):
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


# ---- downtime -------------------------------------------------------------------------------------------------------


def reported(job: Scenario, downtime: timedelta | None) -> Scenario:
    event = job.in_force()
    return job.when(replace(event, downtime=downtime))


def test_downtime_lasts_from_the_end_of_one_plan_to_the_start_of_the_next():
    job = idle().when_query_failed().after(1)
    job.now += 4 * SECOND
    assert newest(job.when_in_force()).downtime == 5 * SECOND


def test_downtime_that_the_driver_measured_is_believed():
    job = idle().when_query_failed().after(4)
    assert newest(reported(job, timedelta(milliseconds=1500))).downtime == timedelta(milliseconds=1500)


def test_downtime_ends_when_the_plan_is_in_force_on_fewer_slots_than_it_will_have():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_in_force().after(10).when_slots(held=4)
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 3 * SECOND)


def test_downtimes_of_one_rescale_add_up():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_in_force().when_slots(held=3)
    job.now += 2 * SECOND
    job.when_in_force()
    assert (newest(job).terminated_reason, newest(job).downtime) == ("SUCCEEDED", 5 * SECOND)


def test_downtime_goes_on_through_other_requirements_and_failures():
    job = Scenario(lower=1, upper=2).given_executing(2).when_query_failed()
    job.now += 2 * SECOND
    job.settle().when_requirements(1, 3)
    job.now += 2 * SECOND
    job.when_driver_ended().when_slots().after(1000).when_slots(free=2).after(10).when_slots(held=2)
    waited = job.now - history(job)[1].start
    assert newest(job.when_in_force()).downtime == waited > 1000 * SECOND


def test_rescale_of_an_update_keeps_what_the_job_went_through_before():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    job.now += 3 * SECOND
    job.when_in_force().when_requirements(1, 3)
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


# ---- clocks and upgrades --------------------------------------------------------------------------------------------


def test_clock_that_goes_back_makes_no_negative_times():
    job = idle().when_query_failed().after(1)
    job.now -= 100 * SECOND
    job.when_in_force()
    rescale = newest(job)
    assert rescale.end is not None
    assert rescale.start <= rescale.end
    assert rescale.downtime == timedelta(0)


@pytest.mark.parametrize("life", [redeploying, offered, failed_over, idle])
def test_job_of_a_version_without_timeline_goes_on(life: ScenarioBuilder):
    job = life()
    job.steps.clear()
    job.state = replace(job.state, timeline=Timeline())
    job.after(200).when_slots(held=4).when_in_force().when_canceled()
    assert job.state.timeline.rescale is None
    assert all(record.number == number for number, record in enumerate(history(job), start=1))


# ---- decisions not to move ------------------------------------------------------------------------------------------


def test_reason_not_to_move_is_told_once():
    job = Scenario(min_parallelism_increase=3, upper=8).given_executing(2)
    for _ in range(3):
        job.when_slots(held=2, free=1).when_slots(held=2, free=0)
    assert job.reasons.count("{'job': 2} -> {'job': 3} possible, not yet: below the minimal increase") == 1


def test_reason_is_told_again_after_a_transition():
    job = Scenario().given_waiting()
    job.when_requirements(1, 4).when_requirements(1, 4)
    reason = "the requirements are as before: nothing to do"
    assert job.reasons.count(reason) == 1
    job.when_slots(free=4).when_requirements(1, 4)
    assert job.reasons.count(reason) == 2


def test_reasons_beyond_the_limit_change_nothing_that_is_saved():
    job = Scenario(min_parallelism_increase=100, upper=80).given_executing(2)
    for free in range(1, MAX_TOLD + 1):
        job.when_slots(held=2, free=free)
    before = job.state
    job.when_slots(held=2, free=40)
    assert job.reason == "{'job': 2} -> {'job': 42} possible, not yet: below the minimal increase"
    assert replace(job.state, offers=()) == replace(before, offers=())
    assert len(before.timeline.told) == MAX_TOLD


def test_long_reasons_are_remembered_by_their_ends():
    job = idle()
    name = "a" * 400
    vertex = JobVertex(name=name, parallelism=ParallelismRange(3, 4))
    job = Scenario(graph=JobGraph(job="job", vertices=(vertex,))).given_waiting()
    job.when_slots(free=1).when_slots(free=2)
    assert len({len(mark) for mark in job.state.timeline.told}) == 1
    assert all(len(mark) < 200 for mark in job.state.timeline.told)


def test_step_that_changes_nothing_costs_nothing():
    state = idle().state
    same = machine.step(state, SlotsChanged(at=state.current.since, offers=state.offers))  # type: ignore[union-attr]
    assert same.state is state


def test_stale_events_leave_the_timeline_alone():
    job = idle().when_canceled()
    again = machine.step(job.state, CancelRequested(at=job.now))
    assert again.rescale is None
