"""The rescale history: which records there are, when they begin and end, and what they tell."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.timeline import (
    Rescale,
    TerminatedReason,
    TriggerCause,
)
from tests.lab.scenario import TRANSIENT, Scenario
from tests.support.scheduler.rescale_scenarios import history, idle, newest, required

SECOND = timedelta(seconds=1)


def causes_and_ends(job: Scenario) -> list[tuple[str, str | None]]:
    """Causes and reasons."""
    return [(record.trigger_cause.value, record.terminated_reason) for record in history(job)]


def states(rescale: Rescale) -> list[str]:
    return [span.state for span in rescale.states]


NO_CHANGE = TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE


def test_job_that_has_not_been_started_has_no_record():
    job = Scenario().when_requirements(1, 2).when_canceled()
    assert history(job) == []


def test_job_that_runs_on_what_it_wants_has_no_open_record():
    job = Scenario().given_executing(4).after(600)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_requirements_that_cannot_be_met_now_wait_for_slots_in_an_idle_job():
    job = required().after(10_000)
    assert newest(job).end is None
    job.when_slots(held=2, free=2).after(70).when_slots(held=4).when_plan_activated()
    assert causes_and_ends(job)[1] == ("UPDATE_REQUIREMENT", "SUCCEEDED")


@pytest.mark.parametrize("vertices_read", [(), ("job",)], ids=["other executors", "other queries"])
@pytest.mark.parametrize("held", [4, 2], ids=["surplus slots are held", "surplus slots are released"])
def test_rescale_to_fewer_slots_completes_its_record(vertices_read: tuple[str, ...], held: int):
    job = Scenario(upper=4).given_script(*vertices_read).given_executing(4).after(100)
    job.when_requirements(1, 2).after(100).when_slots(held=held).when_plan_activated().then(
        "Executing", reason="activated"
    )
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", "SUCCEEDED")]
    assert (newest(job).groups.before, newest(job).groups.after) == ({"default": 4}, {"default": 2})


def test_requirements_that_come_as_the_cooldown_ends_are_not_dropped_with_it():
    job = Scenario(upper=2).given_executing(2)
    job.now += 30 * SECOND
    job.when_requirements(1, 8)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_requirements_that_change_nothing_are_no_rescale():
    job = idle().when_requirements(1, 2)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_requirements_of_a_job_that_is_ending_are_no_rescale():
    assert len(history(idle().when_canceled().when_requirements(1, 8))) == 1


def test_slots_that_arrive_while_requirements_wait_are_the_same_rescale():
    job = required().when_slots(held=2, free=2)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("UPDATE_REQUIREMENT", None)]


def test_slots_that_were_there_when_the_plan_was_activated_are_the_next_rescale():
    job = Scenario(lower=1, upper=8).given_deploying(2).when_slots(held=2, free=4).when_plan_activated()
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("NEW_RESOURCE_AVAILABLE", None)]


def test_forced_rescale_has_a_record_too():
    job = Scenario(upper=8, min_parallelism_increase=4, scaling_interval_min=0, scaling_interval_max=60)
    job.given_executing(2).when_slots(held=2, free=1)
    assert len(history(job)) == 1
    job.after(61)
    assert newest(job).trigger_cause is TriggerCause.NEW_RESOURCE_AVAILABLE


def test_bound_that_was_raised_while_deploying_stops_the_job_in_a_record_of_its_own():
    job = Scenario().given_deploying(2).when_requirements(3, 4).when_slots(held=2).when_plan_activated()
    assert causes_and_ends(job) == [
        ("INITIAL_SCHEDULE", "RESOURCE_REQUIREMENTS_UPDATED"),
        ("UPDATE_REQUIREMENT", "SUCCEEDED"),
        ("UPDATE_REQUIREMENT", None),
    ]
    assert (newest(job).requirements, newest(job).attempt) == (2, 2)


def test_failover_takes_over_the_rescale_that_it_meets():
    job = required().after(5).when_query_failed()
    merged = newest(job)
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]
    assert (merged.number, merged.requirements, merged.attempt) == (2, 2, 1)
    assert (merged.start, states(merged)) == (job.now, ["Executing"])
    assert merged.failure == TRANSIENT.summary


def test_each_failed_deployment_begins_the_failover_again():
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    for _ in range(3):
        job.when_query_failed().after(100)
    assert states(newest(job)) == ["Deploying", "Restarting", "WaitingForResources"]
    assert len(history(job)) == 2


def test_failed_stop_with_savepoint_is_no_rescale():
    job = idle().when_suspended().when_savepoint_failed()
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED")]


def test_failed_stop_with_savepoint_does_not_end_a_rescale():
    job = required().when_suspended().when_savepoint_failed()
    assert (newest(job).end, states(newest(job))) == (None, ["Executing", "StopWithSavepoint"])
    assert newest(job.after(31)).terminated_reason is NO_CHANGE


def test_local_recovery_is_a_failover_without_downtime():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=2).after(5).when_slots(held=4)
    recovered = newest(job)
    assert (recovered.trigger_cause, recovered.terminated_reason) == ("RECOVERABLE_FAILOVER", "SUCCEEDED")
    assert (recovered.tier, recovered.downtime) == (Tier.EXECUTORS, timedelta(0))
    assert recovered.vertices.before == recovered.vertices.after == {"job": 4}
    assert recovered.failure == "2 of 4 slot(s) lost"
    assert states(recovered) == ["Executing", "RestartingLocally", "Executing"]


def test_smaller_plan_after_a_loss_is_the_same_failover():
    job = Scenario().given_executing(4).after(40).when_slots(held=2, free=0).when_plan_activated()
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
    assert causes_and_ends(job) == [("INITIAL_SCHEDULE", "SUCCEEDED"), ("RECOVERABLE_FAILOVER", None)]
