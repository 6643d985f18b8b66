"""What holds in every state: facts come first, outdated events are dropped, changes of requirements take effect together, a reason is reported once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_adaptive._core.scheduler import machine
from airflow_adaptive._core.scheduler.errors import SchedulerUsageError
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverSubmitted,
    RequirementsChanged,
    SlotsChanged,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.machine import MAX_REPORTED
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.steps import SubmitDriver
from tests.lab.scenario import START, TRANSIENT, Scenario
from tests.support.scheduler.rescale_scenarios import (
    idle,
)


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


def executing(**options) -> Scenario:
    return Scenario(lower=1, upper=2, scaling_interval_min=0, max_trigger_delay=0, **options).given_executing(2)


def test_changes_that_follow_at_once_are_one_declaration():
    scenario = executing(slot_request_max_interval="20 ms").when_slots(held=2, free=6).after(1)
    for upper in (3, 4, 5):
        scenario.when_requirements(1, upper).after(0.005)
    scenario.then("Executing", reason="new requirements: they take effect together with changes that follow closely")
    scenario.after(0.005).then("Deploying").then_parallelism(5)
    assert scenario.path.count("Restarting") == 1


def test_interval_begins_with_the_first_change():
    scenario = executing(slot_request_max_interval="1 s")
    scenario.when_requirements(1, 3).after(0.9).when_requirements(1, 4).after(0.2)
    assert scenario.state.requirements == {"job": ParallelismRange(1, 4)}


def test_change_that_is_taken_back_at_once_changes_nothing():
    scenario = executing(slot_request_max_interval="1 s").when_requirements(1, 3).when_requirements(1, 2)
    scenario.after(1).then("Executing", reason="the pending requirements are the current requirements")
    assert scenario.state.requirements == {"job": ParallelismRange(1, 2)}


def test_same_change_twice_is_one():
    scenario = executing(slot_request_max_interval="1 s").when_requirements(1, 3).when_requirements(1, 3)
    scenario.then("Executing", reason="the requirements are unchanged")


def test_reactive_job_takes_all_slots_up_to_its_maximum():
    graph = JobGraph.single("job", ParallelismRange(2, 2), max_parallelism=8)
    scenario = Scenario(graph=graph, reactive=True).given_waiting(free=1)
    scenario.after(0).then_parallelism(1).when_slots(held=1).when_plan_activated()
    scenario.after(30).when_slots(held=1, free=20).when_committed().then_parallelism(8)


def test_reactive_job_ignores_requirements():
    scenario = Scenario(reactive=True, max_trigger_delay=0).given_executing(2)
    scenario.when_requirements(1, 1).then(
        "Executing", reason="requirements ignored: a reactive job uses all available slots"
    )


def test_reactive_job_waits_for_the_slots_of_a_gang():
    scenario = Scenario(reactive=True, max_trigger_delay=0).given_executing(2).when_requirements(3, 128)
    scenario.then("Restarting", reason="need at least 3")


def test_reactive_job_can_be_configured_with_what_it_does_anyway():
    scenario = Scenario(reactive=True).given_executing(2).when_requirements(1, 128)
    scenario.then("Executing", reason="the requirements are unchanged")


def test_slots_above_the_plan_go_back_after_the_idle_timeout():
    scenario = executing(slot_idle_timeout="50 s").when_requirements(1, 1).when_committed()
    scenario.then("Deploying").then_parallelism(1).when_plan_activated()
    plan = scenario.state.plan
    assert plan is not None
    assert (plan.slots, plan.retained_slots) == (1, 2)
    scenario.after(49).then("Executing")
    assert scenario.state.plan == plan
    scenario.after(1).then("Executing", reason="1 slot(s) were idle for slot_idle_timeout: the job releases them")
    assert scenario.state.plan is not None
    assert (scenario.state.plan.retained_slots, scenario.state.plan.version) == (1, plan.version)


def test_slots_that_are_wanted_again_before_the_idle_timeout_were_never_given_back():
    scenario = executing(slot_idle_timeout="50 s").when_requirements(1, 1).when_committed().when_plan_activated()
    scenario.after(20).when_requirements(1, 2).when_committed().then_parallelism(2).when_plan_activated()
    scenario.after(100).then("Executing")
    assert scenario.state.plan is not None
    assert scenario.state.plan.retained_slots == 2


def test_without_an_idle_timeout_slots_go_back_at_once():
    scenario = executing(slot_idle_timeout=0).when_requirements(1, 1).when_committed()
    assert scenario.state.plan is not None
    assert scenario.state.plan.retained_slots == 1


# ---- whose they are -------------------------------------------------------------------------------------------------


def signed(job: Scenario, lower: int, upper: int) -> Scenario:
    return job.when(replace(job.requirements(lower, upper), by="alice (REST)"))


def test_reason_of_a_rescale_names_the_requester_of_the_bounds():
    job = signed(executing().when_slots(held=2, free=2), 1, 4)
    reasons = [step.transition.reason for step in job.steps if step.transition is not None]
    expected = "bounds by alice (REST): 4 slot(s) are available, 2 are used: {'job': 2} -> {'job': 4}"
    assert expected in reasons
    assert expected in job.reasons


def test_requester_of_bounds_without_an_effect_is_reported():
    job = signed(Scenario(1, 4).given_executing(2), 1, 2)
    assert job.reason.startswith("bounds by alice (REST): ")


def test_pending_bounds_keep_their_requester():
    job = Scenario(1, 4, slot_request_max_interval="1 s").given_executing(2)
    signed(job, 1, 2)
    assert "alice" not in job.reason
    job.after(1)
    assert job.reason.startswith("bounds by alice (REST): ")


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
    same = machine.step(state, SlotsChanged(at=state.current.since, offers=state.offers, standby=state.standby_offer))  # type: ignore[union-attr]
    assert same.state is state
