"""Rescale tiers: each change uses the cheapest tier that reaches the plan, and the next tier if that tier fails."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.scheduler import rescale_tiers
from airflow_adaptive._core.scheduler.events import REPARTITION_ERROR
from airflow_adaptive._core.scheduler.job_graph import JobGraph, JobVertex
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Plan
from airflow_adaptive._core.scheduler.steps import SubmitDriver
from airflow_adaptive._core.scheduler.timeline import TerminatedReason
from tests.lab.scenario import Scenario

AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}
UNREPARTITIONABLE = Failure(
    error_class="STATE_REPARTITION_INVALID_CHECKPOINT",
    message="the provider",
    causes=(f"airflow_adaptive.job.state.repartition.{REPARTITION_ERROR}",),
)


def running(slots: int = 2, *vertices_read: str, **options: Any) -> Scenario:
    """A job that runs on so many slots, by a script that builds its queries for these vertices."""
    return Scenario(**{**AT_ONCE, **options}).given_script(*vertices_read).given_executing(slots)


def plan_of(job: Scenario) -> Plan:
    assert job.state.plan is not None
    return job.state.plan


def tier_of(job: Scenario) -> Tier | None:
    """Of the newest transition."""
    return next(step.transition.tier for step in reversed(job.steps) if step.transition is not None)


def graph(max_parallelism: int) -> JobGraph:
    return JobGraph.single("job", ParallelismRange(1, 4), max_parallelism=max_parallelism)


@pytest.mark.parametrize(
    ("vertices_read", "partitions", "deployment", "tier"),
    [
        ((), 8, "", Tier.EXECUTORS),
        (("other",), 8, "", Tier.EXECUTORS),
        (("job", "other"), 8, "", Tier.QUERY),
        (None, 8, "", Tier.QUERY),
        ((), 16, "", Tier.STATE),
        ((), 16, "new", Tier.DRIVER),
    ],
)
def test_cheapest_tier_is_taken(
    vertices_read: tuple[str, ...] | None, partitions: int, deployment: str, tier: Tier
) -> None:
    job = Scenario(graph=graph(8), prepare_deployments=False).given_executing(2)
    assert job.state.driver is not None
    driver = replace(job.state.driver, vertices_read=vertices_read)
    state = replace(job.state, driver=driver, job=graph(partitions), deployment=deployment)
    assert rescale_tiers.cheapest_allowed_tier(state, plan_of(job), {"job": 3}) is tier


# ---- tier 0 ---------------------------------------------------------------------------------------------------------


def test_executors_are_added_under_a_query_that_does_not_depend_on_their_number() -> None:
    job = running(2)
    query_version = plan_of(job).query_version
    job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)
    assert (tier_of(job), plan_of(job).query_version, plan_of(job).retained_slots) == (Tier.EXECUTORS, query_version, 4)
    job.when_slots(held=4).when_plan_activated().then("Executing")
    assert (job.state.num_rescales, job.state.num_restarts) == (1, 0)


def test_executors_that_a_query_was_using_are_given_back_at_once() -> None:
    job = running(4, slot_idle_timeout="50 s").when_requirements(1, 2).then("Deploying").then_parallelism(2)
    assert (plan_of(job).slots, plan_of(job).retained_slots) == (2, 2)


def test_executors_are_added_without_waiting_for_a_batch() -> None:
    job = running(2, max_trigger_delay=60).when_slots(held=2, free=2)
    job.then("Deploying")


def test_cooldown_binds_executors_too() -> None:
    job = running(2, scaling_interval_min=30).when_slots(held=2, free=2).then("Executing")
    job.after(30).then("Deploying")


def test_query_is_built_again_if_it_depends_on_what_changes() -> None:
    job = running(2, "job").when_slots(held=2, free=2).then("Deploying")
    assert (tier_of(job), plan_of(job).query_version) == (Tier.QUERY, plan_of(job).version)


def test_lost_slots_are_done_without_under_the_query_that_runs() -> None:
    job = (
        running(4, local_recovery_timeout=60, scaling_interval_min=30)
        .when_slots(held=2, free=2)
        .then("RestartingLocally")
    )
    job.after(60).then("Executing", reason="did not come back in time").then_parallelism(2)
    assert tier_of(job) is Tier.EXECUTORS
    assert job.state.num_restarts == 0


def test_replacement_of_some_of_the_lost_slots_is_awaited() -> None:
    job = running(4).when_slots(held=2, free=1).then("Deploying", reason="cannot come back").then_parallelism(3)
    job.when_slots(held=3).when_plan_activated().then("Executing")


def test_slots_that_arrived_are_taken_when_the_others_do_not_come() -> None:
    job = running(1, deploy_timeout=300, scaling_interval_min=30).when_slots(held=1, free=3).after(30)
    job.then("Deploying").then_parallelism(4)
    job.when_slots(held=3, free=1).after(300).then("Executing", reason="continues on these slots").then_parallelism(3)


def test_executors_that_stay_lead_to_a_new_query_and_then_a_new_driver() -> None:
    job = running(4, deploy_timeout=300).when_requirements(1, 2).then("Deploying")
    job.after(300).then("Deploying", reason="tier 1 follows").then_parallelism(2)
    assert (tier_of(job), plan_of(job).query_version) == (Tier.QUERY, plan_of(job).version)
    job.after(300).then("Restarting", reason="tier 3 follows")
    job.when_slots().when_driver_ended().when_slots(free=4).then(
        "Deploying", SubmitDriver(epoch=2, slots=2, cause="SlotsChanged")
    )
    job.then_parallelism(2)
    assert not any("DEPLOY_TIMEOUT" in reason for reason in job.reasons)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_job_goes_on_as_before_when_its_driver_refuses_a_plan() -> None:
    job = running(2, "job").when_slots(held=2, free=2).then("Deploying")
    job.when_rejected().then("Executing", reason="continues with the previous plan").then_parallelism(2)
    (ended,) = [step.rescale for step in job.steps[-3:] if step.rescale is not None]
    assert ended.terminated_reason is TerminatedReason.EXCEPTION_OCCURRED
    assert "an executor was lost" in str(ended.failure)


def test_rejected_parallelism_is_not_tried_again_but_another_one_is() -> None:
    job = running(2, "job").when_slots(held=2, free=2).when_rejected().then("Executing")
    job.when_committed().when_slots(held=2, free=3).after(3600).then("Executing")
    assert "the driver rejected this parallelism" in " ".join(job.reasons)
    job.when_requirements(1, 3).then("Deploying").then_parallelism(3)
    job.when_slots(held=3, free=2).when_plan_activated().when_requirements(1, 4).then("Deploying").then_parallelism(4)


def test_refusal_of_another_plan_is_nothing() -> None:
    job = running(2, "job").when_slots(held=2, free=2).then("Deploying")
    stale = job.plan_rejected()
    job.when_plan_activated().when_slots(held=4).then("Executing")
    job.when(stale).then("Executing").then_parallelism(4)
    assert job.state.driver is not None
    assert job.state.driver.rejected is None


# ---- tier 2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [4, 16])
def test_state_is_repartitioned_when_the_maximum_parallelism_is_deployed_otherwise(partitions: int) -> None:
    job = Scenario(graph=graph(8), **AT_ONCE).given_script().given_executing(2)
    job.when_redeployed("", graph(partitions)).then("Deploying", reason="partitions of the state")
    assert (tier_of(job), dict(plan_of(job).state_partitions)) == (Tier.STATE, {"default": partitions})
    job.when_plan_activated().then("Executing").then_parallelism(2)
    job.after(3600).then("Executing")


def test_state_keeps_its_partitions_below_tier_2() -> None:
    job = Scenario(graph=graph(8), highest_rescale_tier=1, **AT_ONCE).given_script("job").given_executing(2)
    job.when_redeployed("", graph(16)).then("Executing")
    job.when_slots(held=2, free=2).then("Deploying")
    assert (tier_of(job), dict(plan_of(job).state_partitions)) == (Tier.QUERY, {"default": 8})


def test_job_whose_state_can_not_be_repartitioned_goes_on_and_rescales_without() -> None:
    job = Scenario(graph=graph(8), **AT_ONCE).given_script("job").given_executing(2)
    job.when_redeployed("", graph(16)).then("Deploying").when_rejected(UNREPARTITIONABLE).then("Executing")
    assert not rescale_tiers.may_repartition(job.state)
    job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)
    assert (tier_of(job), dict(plan_of(job).state_partitions)) == (Tier.QUERY, {"default": 8})


def test_driver_that_cannot_repartition_keeps_the_partitions_with_the_reason() -> None:
    job = Scenario(graph=graph(8), **AT_ONCE).given_script("job").given_executing(2)
    job.when_slots(held=2, free=2).then("Deploying")
    job.when(replace(job.plan_activated(), cannot_repartition="Spark 4.1.4 cannot do that; Spark 4.2 can"))
    job.when_slots(held=4).then("Executing")
    job.when_redeployed("", graph(16))
    job.then(
        "Executing", reason="the number of state partitions cannot change: Spark 4.1.4 cannot do that; Spark 4.2 can"
    )
    assert not rescale_tiers.may_repartition(job.state)
    assert dict(plan_of(job).state_partitions) == {"default": 8}


def groups() -> JobGraph:
    vertices = (
        JobVertex(name="a", parallelism=ParallelismRange(1, 2), max_parallelism=4, slot_sharing_group="first"),
        JobVertex(name="b", parallelism=ParallelismRange(1, 2), max_parallelism=6, slot_sharing_group="second"),
    )
    return JobGraph(job="job", vertices=vertices)


def test_each_slot_sharing_group_has_partitions_of_its_own() -> None:
    job = Scenario(graph=groups()).given_executing(4)
    assert dict(plan_of(job).state_partitions) == {"first": 4, "second": 6}


# ---- tier 3 ---------------------------------------------------------------------------------------------------------


def test_new_code_is_taken_up_by_a_new_driver_after_a_graceful_stop() -> None:
    job = running(2, prepare_deployments=False).when_redeployed("new").then("Restarting", reason="redeployed")
    assert tier_of(job) is Tier.DRIVER
    job.when_slots().when_driver_ended().when_slots(free=2)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="SlotsChanged", deployment="new"))
    assert job.state.driver is not None
    assert job.state.driver.deployment == "new"


def test_new_code_waits_for_the_end_of_the_cooldown_and_for_a_batch() -> None:
    job = (
        running(2, scaling_interval_min=30, max_trigger_delay=3600, prepare_deployments=False)
        .when_redeployed("new")
        .then("Executing")
    )
    job.after(30).then("Executing", reason="redeployed, but the rescale waits").when_committed().then("Restarting")


def test_new_code_is_left_to_the_next_start_below_tier_3() -> None:
    job = running(2, highest_rescale_tier=2).when_redeployed("new").after(3600).then("Executing")
    job.when_driver_ended().after(60).when_slots(free=2)
    assert job.state.driver is not None
    assert job.state.driver.deployment == "new"


def test_deployment_is_noted_by_a_job_that_does_not_run() -> None:
    Scenario().given_waiting().when_redeployed("new").then(
        "WaitingForResources", reason="the new deployment is recorded"
    )


# ---- never above the highest allowed tier -------------------------------------------------------------------------


def test_more_slots_are_left_alone_if_they_take_a_higher_tier_than_is_allowed() -> None:
    job = running(2, "job", highest_rescale_tier=0).when_slots(held=2, free=2).after(3600)
    job.then("Executing", reason="it needs tier 1 (QUERY), but highest_rescale_tier is 0")


def test_fewer_slots_are_done_with_on_any_tier() -> None:
    job = running(4, "job", highest_rescale_tier=0).when_requirements(1, 2).then("Deploying").then_parallelism(2)
    assert tier_of(job) is Tier.EXECUTORS


@pytest.mark.parametrize(("target", "is_allowed"), [({"a": 2, "b": 1}, False), ({"a": 1, "b": 1}, True)])
def test_other_use_of_as_many_slots_needs_a_tier_that_is_allowed(target: dict[str, int], is_allowed: bool) -> None:
    job = Scenario(graph=groups(), highest_rescale_tier=0, **AT_ONCE).given_script("a").given_executing(3)
    assert plan_of(job).parallelism == {"a": 1, "b": 2}
    assert rescale_tiers.is_allowed(job.state, plan_of(job), target) is is_allowed


def test_change_that_is_not_allowed_is_not_forced_either() -> None:
    options = {"highest_rescale_tier": 0, "min_parallelism_increase": 3, "scaling_interval_max": 60}
    job = Scenario(upper=8, **{**AT_ONCE, **options}).given_script("job").given_executing(2)
    job.when_slots(held=2, free=1).after(3600).then("Executing", reason="no forced rescale is necessary")
