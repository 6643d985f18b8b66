"""Executing: cooldown, stabilisation, what a rescale is worth, force, lower bound, loss of slots."""

from typing import Any

import pytest

from airflow_adaptive._core.scheduler.commands import KillDriver
from airflow_adaptive._core.scheduler.state import Executing
from tests.lab.scenario import HOPELESS, UNENDED, Scenario

NO_COOLDOWN: dict[str, Any] = {"scaling_interval_min": 0}
AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def current(job: Scenario) -> Executing:
    assert isinstance(job.state.current, Executing)
    return job.state.current


# ---- cooldown -------------------------------------------------------------------------------------------------------


def test_cooldown_remembers_a_change_and_acts_when_it_ends():
    job = Scenario().given_executing(2).after(10).when_slots(held=2, free=2)
    job.then("Executing", reason="{'job': 2} -> {'job': 4} is possible, but must wait: phase Cooldown")
    job.after(19.9).then("Executing").after(0.1).then("Deploying").then_parallelism(4)


def test_cooldown_folds_all_changes_into_one_rescale():
    job = Scenario(upper=8).given_executing(2).when_slots(held=2, free=1).after(9).when_slots(held=2, free=4)
    job.after(9).when_slots(held=2, free=6).after(12).then("Deploying").then_parallelism(8)
    assert job.path.count("Restarting") == 1


def test_cooldown_forgets_nothing_that_was_there_when_it_began():
    job = Scenario().given_deploying(2).when_slots(held=2, free=2).when_plan_activated().then("Executing")
    job.after(30).then("Deploying").then_parallelism(4)


def test_change_that_is_gone_when_the_cooldown_ends_rescales_nothing():
    job = Scenario().given_executing(2).when_slots(held=2, free=2).after(10).when_slots(held=2).after(300)
    job.then("Executing").then_parallelism(2)


def test_cooldown_begins_again_with_each_visit():
    job = Scenario().given_executing(2).after(29).when_query_failed().after(11).when_plan_activated()
    job.when_slots(held=2, free=2).after(29).then("Executing").after(1).then("Deploying")


@pytest.mark.parametrize(
    ("extension", "acts_at"),
    [("none", 30), ("first_change", 40), ("every_change", 55)],
)
def test_cooldown_is_extended_as_configured(extension: str, acts_at: int):
    job = Scenario(cooldown_extension=extension, max_trigger_delay=0).given_executing(2)
    job.after(10).when_slots(held=2, free=1).after(15).when_slots(held=2, free=2)
    job.after(acts_at - 25.1).then("Executing").after(0.1).then("Deploying")


def test_cooldown_is_never_extended_beyond_the_longest_interval():
    job = Scenario(cooldown_extension="every_change", scaling_interval_max=50, max_trigger_delay=0).given_executing(2)
    for free in (1, 2, 1, 2):
        job.after(12).when_slots(held=2, free=free)
    job.after(1.9).then("Executing").after(0.1).then("Deploying")


def test_first_change_extends_the_cooldown_only_once():
    job = Scenario(cooldown_extension="first_change", max_trigger_delay=0).given_executing(2)
    job.after(5).when_slots(held=2, free=1).after(20).when_slots(held=2, free=2)
    job.after(9.9).then("Executing").after(0.1).then("Deploying")


# ---- stabilisation and trigger --------------------------------------------------------------------------------------


def test_desired_slots_are_taken_with_the_next_commit():
    job = Scenario(**NO_COOLDOWN).given_executing(2).when_slots(held=2, free=2).then("Executing", reason="Stabilizing")
    job.after(3).when_committed().then("Deploying").then_parallelism(4)


def test_desired_slots_are_taken_when_no_batch_is_committed_in_time():
    job = Scenario(**NO_COOLDOWN, max_trigger_delay=10).given_executing(2).when_slots(held=2, free=2)
    job.after(9.9).then("Executing").after(0.1).then("Deploying")


def test_sufficient_slots_are_taken_with_the_first_commit_after_the_stabilisation():
    job = Scenario(upper=8, **NO_COOLDOWN, max_trigger_delay=600).given_executing(2).when_slots(held=2, free=2)
    job.after(59).when_committed().then("Executing", reason="Stabilizing")
    job.after(20).then("Executing").when_committed().then("Deploying").then_parallelism(4)


def test_sufficient_slots_are_taken_when_stabilised_and_overdue():
    job = Scenario(upper=8, **NO_COOLDOWN, max_trigger_delay=10).given_executing(2).when_slots(held=2, free=2)
    job.after(59.9).then("Executing").after(0.1).then("Deploying")


# ---- how much is worth it -------------------------------------------------------------------------------------------


def test_increase_below_the_minimum_justifies_no_rescale():
    job = Scenario(upper=8, **AT_ONCE, min_parallelism_increase=2).given_executing(2).when_slots(held=2, free=1)
    job.then("Executing", reason="is possible, but is below the minimum increase")
    job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)


def test_reaching_all_upper_bounds_always_justifies_a_rescale():
    job = Scenario(upper=3, **AT_ONCE, min_parallelism_increase=5).given_executing(2).when_slots(held=2, free=1)
    job.then("Deploying").then_parallelism(3)


def test_decrease_always_justifies_a_rescale():
    job = Scenario(**AT_ONCE, min_parallelism_increase=5).given_executing(4).when_requirements(1, 3)
    job.then("Deploying").then_parallelism(3)


def test_slots_that_give_the_same_parallelism_change_nothing():
    job = Scenario(**AT_ONCE).given_executing(4).when_slots(held=4, free=7).then("Executing").then_parallelism(4)
    assert job.path[-1] == "Executing"


def test_rescale_is_counted_and_does_not_consult_the_restart_strategy():
    job = Scenario(**AT_ONCE, restart_strategy="none").given_executing(2).when_slots(held=2, free=2).then("Deploying")
    assert (job.state.num_restarts, job.state.num_rescales, job.state.restarts.attempts) == (1, 1, 0)


def test_rescale_is_on_the_timeline_with_both_parallelisms():
    job = Scenario(**AT_ONCE).given_executing(2).when_slots(held=2, free=2)
    restarting, deploying = [step.transition for step in job.steps if step.transition][-2:]
    assert restarting is not None
    assert deploying is not None
    assert (restarting.before, restarting.target, restarting.reason) == (
        {"job": 2},
        "Restarting",
        "4 slot(s) are available, 2 are used: {'job': 2} -> {'job': 4}",
    )
    assert (deploying.before, deploying.after) == ({"job": 2}, {"job": 4})


# ---- forced rescale -------------------------------------------------------------------------------------------------


def forced(**options: Any) -> Scenario:
    minimum: dict[str, Any] = {"min_parallelism_increase": 3, "scaling_interval_max": 60}
    return Scenario(upper=8, **{**NO_COOLDOWN, **minimum, **options}).given_executing(2)


def test_small_change_is_forced_after_the_longest_interval():
    job = forced().after(20).when_slots(held=2, free=1).after(59.9).then("Executing")
    job.after(0.1).then("Deploying", reason="forced after scaling_interval_max: {'job': 2} -> {'job': 3}")
    job.then_parallelism(3)


def test_small_change_is_forced_at_once_when_the_last_rescale_is_long_ago():
    forced().after(61).when_slots(held=2, free=1).then("Deploying").then_parallelism(3)


def test_small_change_that_was_there_from_the_beginning_is_forced_too():
    job = (
        Scenario(upper=8, **NO_COOLDOWN, min_parallelism_increase=3, scaling_interval_max=60)
        .given_deploying(2)
        .when_slots(held=2, free=1)
        .when_plan_activated()
    )
    job.after(60).then("Deploying").then_parallelism(3)


def test_nothing_is_forced_when_the_change_is_gone():
    job = forced().when_slots(held=2, free=1).after(30).when_slots(held=2)
    job.after(100).then("Executing", reason="no forced rescale is necessary")
    assert current(job).forced_at is None


def test_nothing_is_forced_when_the_change_has_become_worth_it():
    job = forced(max_trigger_delay=600, executing_stabilization_timeout=600).when_slots(held=2, free=1)
    job.after(30).when_slots(held=2, free=3)
    assert current(job).forced_at is None
    job.after(300).then("Executing")


def test_time_of_the_forced_rescale_is_not_moved_by_further_changes():
    job = forced().when_slots(held=2, free=1).after(30).when_slots(held=2, free=2).after(30)
    job.then("Deploying").then_parallelism(4)


# ---- lower bound ----------------------------------------------------------------------------------------------------


def test_job_below_its_new_lower_bound_stops_and_waits():
    job = Scenario().given_executing(2).when_requirements(3, 4)
    job.then("Restarting", reason="below the lower bound: have 2 slot(s), need at least 3")
    job.after(10).when_driver_ended().then("WaitingForResources")
    job.after(10**6).then("WaitingForResources")


def test_job_that_does_not_stop_below_its_lower_bound_is_killed():
    job = Scenario().given_executing(2).when_requirements(3, 4).then("Restarting")
    job.after(60).then("Restarting", KillDriver(epoch=1, submission_id=None, cause="TimerFired"))
    job.after(60).then("Restarting", KillDriver(epoch=1, submission_id=None, cause="TimerFired"))


def test_job_below_its_new_lower_bound_keeps_running_when_configured_so():
    job = Scenario(below_lower_bound="keep_running", scaling_interval_min=0).given_executing(2).when_requirements(3, 4)
    job.then("Executing", reason="have 2 slot(s), need at least 3 (vertex 'job' at least 3); the job keeps running")
    job.after(1000).then("Executing").when_slots(held=2, free=1).after(100).then("Deploying").then_parallelism(3)


def test_lower_bound_within_the_running_parallelism_changes_nothing():
    Scenario(**AT_ONCE).given_executing(4).when_requirements(4, 4).then("Executing").then_parallelism(4)


def test_lower_bound_that_was_raised_while_deploying_is_seen_on_entry():
    job = Scenario().given_deploying(2).when_requirements(3, 4).when_slots(held=2).when_plan_activated()
    job.then("Restarting", reason="below the lower bound")


def test_nothing_is_forced_below_the_lower_bound():
    job = forced(below_lower_bound="keep_running").when_slots(held=2, free=1).when_requirements(7, 8)
    job.after(60).then("Executing", reason="no forced rescale is necessary")


# ---- loss of slots, failures, requests ------------------------------------------------------------------------------


def test_loss_of_slots_never_waits_for_the_cooldown():
    job = Scenario().given_executing(4).when_slots(held=3, free=1)
    job.then("RestartingLocally", reason="1 of 4 slot(s) lost")


def test_loss_of_slots_during_a_stop_that_failed_is_seen_on_entry():
    job = Scenario().given_executing(4).when_suspended().when_slots(held=3, free=1).when_savepoint_failed()
    job.then("RestartingLocally", reason="1 of 4 slot(s) lost")


def test_end_of_the_input_finishes_the_job():
    job = Scenario().given_executing(2).when_completed().then("Finished").then_outcome("FINISHED")
    job.after(60).then("Finished", KillDriver(epoch=1, submission_id=None, cause="TimerFired"))


def test_desired_states_are_followed():
    Scenario().given_executing(2).when_canceled().then("Canceling")
    Scenario().given_executing(2).when_suspended().then("StopWithSavepoint")


def test_non_recoverable_failure_fails_the_job():
    Scenario().given_executing(2).when_query_failed(HOPELESS).then("Failing", reason="not recoverable: SyntaxError")


def test_driver_that_could_not_stop_a_batch_is_replaced_at_once_and_no_failure_is_counted():
    job = Scenario(restart_strategy="none", **AT_ONCE).given_executing(2).when_slots(held=2, free=2).then("Deploying")
    restarts = job.state.num_restarts
    job.when_driver_ended(UNENDED)
    assert job.path[-2:] == ["Restarting", "Deploying"]
    assert UNENDED.message in job.reasons
    assert (job.state.failures, job.state.restarts.attempts, job.state.num_restarts) == ((), 0, restarts)
    job.then_parallelism(4)
