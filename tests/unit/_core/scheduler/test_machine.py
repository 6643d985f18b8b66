"""What holds in every state: facts are folded in first, what is outdated is dropped, broken promises are refused."""

from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.commands import SubmitDriver
from airflow_adaptive._core.scheduler.errors import SchedulerUsageError
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverSubmitted,
    RequirementsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import START, TRANSIENT, Scenario


def test_timer_of_an_older_version_is_ignored():
    job = Scenario().given_deploying(2)
    old = TimerFired(at=job.now + timedelta(days=1), timer=TimerName.TRANSITION, version=1)
    job.apply_without_timers(old).then(
        "Deploying", reason="timer TRANSITION of version 1 ignored: the state has version 2"
    )


@pytest.mark.parametrize("timer", [TimerName.TRANSITION, TimerName.BACKOFF])
def test_timer_that_is_not_due_is_ignored(timer: TimerName):
    job = Scenario().given_executing(2).when_slots(held=2, free=2)
    early = TimerFired(at=job.now, timer=timer, version=job.state.version)
    job.apply_without_timers(early).then("Executing", reason=f"timer {timer} ignored: it is not due")


def test_driver_of_another_epoch_is_ignored():
    job = Scenario().given_executing(2)
    late = DriverEnded(at=job.now, epoch=0, failure=TRANSIENT)
    job.when(late).then("Executing", reason="DriverEnded of epoch 0 ignored: the epoch is 1")


def test_epochs_continue_after_an_earlier_run():
    job = Scenario()
    job.state = machine.create(job.state.job, job.state.options, epoch=41)
    job.given_waiting().when_slots(free=4).then("Deploying", SubmitDriver(epoch=42, slots=4, cause="SlotsChanged"))


def test_submission_id_is_learned_in_every_state_with_a_driver():
    job = Scenario().given_executing(2)
    job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1"))
    assert job.state.driver is not None
    assert job.state.driver.submission_id == "driver-1"


@pytest.mark.parametrize("bounds", [ParallelismRange(-1, 4), ParallelismRange(3, 2), ParallelismRange(1, 999)])
def test_requirements_that_were_not_accepted_are_refused(bounds: ParallelismRange):
    job = Scenario().given_executing(2)
    before = job.state
    with pytest.raises(SchedulerUsageError, match=r"were not accepted: call requirements\.accept"):
        job.when(RequirementsChanged(at=job.now, requirements={"job": bounds}))
    assert job.state == before


def test_overrides_are_active_from_the_start():
    job = Scenario(requirements={"job": ParallelismRange(1, 2)}).given_waiting().when_slots(free=4)
    job.then("Deploying", SubmitDriver(epoch=1, slots=2, cause="SlotsChanged"))


def test_timers_come_earliest_first():
    timers = machine.timers(Scenario().given_waiting(free=2).state)
    assert [timer.name for timer in timers] == [TimerName.TRANSITION, TimerName.RESOURCE_WAIT]
    assert [timer.due - START for timer in timers] == [timedelta(seconds=10), timedelta(minutes=5)]


def test_several_groups_share_the_slots():
    graph = JobGraph(
        job="flights",
        vertices=(
            JobVertex(name="read", parallelism=ParallelismRange(1, 2), slot_sharing_group="in"),
            JobVertex(name="count", parallelism=ParallelismRange(2, 6), slot_sharing_group="out"),
            JobVertex(name="write", parallelism=ParallelismRange(1, 3), slot_sharing_group="out"),
        ),
    )
    job = Scenario(graph=graph, scaling_interval_min=0, max_trigger_delay=0).given_deploying(5)
    job.then("Deploying").then_parallelism({"read": 2, "count": 3, "write": 3})
    job.when_slots(held=5).when_plan_activated().when_slots(held=5, free=3).then("Deploying")
    job.then_parallelism({"read": 2, "count": 6, "write": 3})


def test_event_without_a_transition_is_silent_or_gives_a_reason():
    job = Scenario().given_deploying(2)
    known_reasons = len(job.reasons)
    job.when_committed().when_slots(free=3)
    assert len(job.reasons) == known_reasons
    job.when_savepoint_completed().then("Deploying", reason="SavepointCompleted ignored in the state Deploying")
