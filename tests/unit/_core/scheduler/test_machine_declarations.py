"""Changes of requirements on their way into force, and what reactive jobs make of them."""

from dataclasses import replace

import pytest

from airflow_adaptive._core.scheduler.errors import SchedulerUsageError
from airflow_adaptive._core.scheduler.events import RequirementsChanged, SlotOffer, SlotsChanged
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from tests.lab.scenario import Scenario


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


def test_without_an_interval_a_change_is_active_at_once():
    assert executing().when_requirements(1, 3).state.requirements == {"job": ParallelismRange(1, 3)}


def test_requirements_that_were_not_accepted_are_a_usage_error():
    scenario = executing()
    with pytest.raises(SchedulerUsageError, match="were not accepted"):
        scenario.when(RequirementsChanged(at=scenario.now, requirements={"job": ParallelismRange(-1, 2)}))


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


def test_users_controller_decides_on_increases():
    scenario = Scenario(
        upper=8,
        scale_up_controller="tests.unit._core.scheduler.config.test_parsing:OnlyDoubles",
        scaling_interval_min=0,
    ).given_executing(2)
    scenario.when_slots(held=2, free=1).when_committed().after(60).when_committed().then("Executing")
    offers = (SlotOffer(worker="worker-1", held=2, free=2),)
    scenario.when(SlotsChanged(at=scenario.now, offers=offers)).after(60).when_committed().then_parallelism(4)


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


def test_bounds_without_a_requester_are_reported_without_one():
    job = Scenario(1, 4).given_executing(2)
    job.when_requirements(1, 2)
    assert "bounds by" not in " ".join(job.reasons)
