"""States of a running job: Executing (cooldown, stabilization, force, lower bound, loss of slots) and RestartingLocally."""

from datetime import timedelta
from typing import Any

from airflow_adaptive._core.scheduler.events import TimerFired, TimerName
from airflow_adaptive._core.scheduler.state import Executing
from airflow_adaptive._core.scheduler.steps import KillDriver
from tests.lab.scenario import HOPELESS, UNENDED, Scenario

NO_COOLDOWN: dict[str, Any] = {"scaling_interval_min": 0}
AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}


def current(job: Scenario) -> Executing:
    assert isinstance(job.state.current, Executing)
    return job.state.current


# ---- cooldown -------------------------------------------------------------------------------------------------------


def test_cooldown_remembers_a_change_and_acts_when_it_ends():
    job = Scenario().given_executing(2).after(10).when_slots(held=2, free=2)
    job.then("Executing", reason="{'job': 2} -> {'job': 4} is possible, but waits until the end of the cooldown")
    job.after(19.9).then("Executing").after(0.1).then("Deploying").then_parallelism(4)


def test_cooldown_forgets_nothing_that_was_there_when_it_began():
    job = Scenario().given_deploying(2).when_slots(held=2, free=2).when_plan_activated().then("Executing")
    job.after(30).then("Deploying").then_parallelism(4)


def test_cooldown_begins_again_with_each_visit():
    job = Scenario().given_executing(2).after(29).when_query_failed().after(11).when_plan_activated()
    job.when_slots(held=2, free=2).after(29).then("Executing").after(1).then("Deploying")


# ---- stabilisation and trigger --------------------------------------------------------------------------------------


def test_desired_slots_are_taken_with_the_next_commit():
    job = (
        Scenario(**NO_COOLDOWN)
        .given_executing(2)
        .when_slots(held=2, free=2)
        .then("Executing", reason="waits until the number of slots is stable")
    )
    job.after(3).when_committed().then("Deploying").then_parallelism(4)


def test_desired_slots_are_taken_when_no_batch_is_committed_in_time():
    job = Scenario(**NO_COOLDOWN, max_trigger_delay=10).given_executing(2).when_slots(held=2, free=2)
    job.after(9.9).then("Executing").after(0.1).then("Deploying")


def test_sufficient_slots_are_taken_with_the_first_commit_after_the_stabilisation():
    job = Scenario(upper=8, **NO_COOLDOWN, max_trigger_delay=600).given_executing(2).when_slots(held=2, free=2)
    job.after(59).when_committed().then("Executing", reason="waits until the number of slots is stable")
    job.after(20).then("Executing").when_committed().then("Deploying").then_parallelism(4)


def test_sufficient_slots_are_taken_when_stabilised_and_overdue():
    job = Scenario(upper=8, **NO_COOLDOWN, max_trigger_delay=10).given_executing(2).when_slots(held=2, free=2)
    job.after(59.9).then("Executing").after(0.1).then("Deploying")


# ---- how much is worth it -------------------------------------------------------------------------------------------


def test_increase_below_the_minimum_justifies_no_rescale():
    job = Scenario(upper=8, **AT_ONCE, min_parallelism_increase=2).given_executing(2).when_slots(held=2, free=1)
    job.then("Executing", reason="is possible, but is below the minimum increase")
    job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)


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


def test_nothing_is_forced_when_the_change_is_gone():
    job = forced().when_slots(held=2, free=1).after(30).when_slots(held=2)
    job.after(100).then("Executing", reason="no forced rescale is necessary")
    assert current(job).forced_at is None


def test_nothing_is_forced_when_the_change_has_become_worth_it():
    job = forced(max_trigger_delay=600, executing_stabilization_timeout=600).when_slots(held=2, free=1)
    job.after(30).when_slots(held=2, free=3)
    assert current(job).forced_at is None
    job.after(300).then("Executing")


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


def test_driver_that_could_not_stop_a_batch_is_replaced_without_a_counted_failure():
    job = Scenario(restart_strategy="none", **AT_ONCE).given_executing(2).when_slots(held=2, free=2).then("Deploying")
    restarts = job.state.num_restarts
    job.when_driver_ended(UNENDED)
    assert job.path[-2:] == ["Restarting", "Deploying"]
    assert UNENDED.message in job.reasons
    assert (job.state.failures, job.state.restarts.attempts, job.state.num_restarts) == ((), 0, restarts)
    job.then_parallelism(4)


def recovering(**options: Any) -> Scenario:
    """One of four slots is lost, and may come back."""
    job = Scenario(**options).given_executing(4).when_slots(held=3, free=1)
    return job.then("RestartingLocally")


def test_recovers_when_the_slots_are_back():
    job = recovering().after(20).when_slots(held=4).then("Executing", reason="recovered locally").then_parallelism(4)
    assert (job.state.num_restarts, job.state.restarts.attempts) == (0, 0)


def test_plans_again_at_once_when_the_slots_cannot_come_back():
    job = Scenario().given_executing(4).when_slots(held=3)
    job.then("Deploying", reason="the lost slots cannot come back: {'job': 4} -> {'job': 3}").then_parallelism(3)
    assert job.path[-3:] == ["RestartingLocally", "Restarting", "Deploying"]
    assert job.state.restarts.attempts == 0


def test_plans_again_when_the_missing_slots_can_no_longer_arrive():
    job = (
        recovering()
        .after(20)
        .when_slots(held=2, free=2)
        .then("RestartingLocally", reason="the job holds 2 of 4 slot(s)")
    )
    job.when_slots(held=2).then("Deploying").then_parallelism(2)


def test_plans_again_with_what_is_held_when_it_takes_too_long():
    job = recovering().after(59.9).then("RestartingLocally").after(0.1)
    job.then("Deploying", reason="the lost slots did not come back in time: {'job': 4} -> {'job': 3}")


def test_stops_and_waits_when_what_is_left_is_below_the_minimum():
    job = Scenario(lower=3).given_executing(4).when_slots(held=2)
    job.then("Restarting", reason="the lost slots cannot come back: have 2 slot(s), need at least 3")
    job.when_driver_ended().then("WaitingForResources").after(10**6).then("WaitingForResources")


def test_stops_and_waits_when_what_is_held_in_time_is_below_the_minimum():
    job = Scenario(lower=3).given_executing(4).when_slots(held=2, free=2).after(60)
    job.then("Restarting", reason="did not come back in time: have 2 slot(s), need at least 3")


def test_requirements_take_effect_after_the_local_recovery():
    job = recovering(scaling_interval_min=0, max_trigger_delay=0).when_requirements(1, 2).then("RestartingLocally")
    job.when_slots(held=4).then("Deploying").then_parallelism(2)


def test_failed_query_goes_to_failure_handling():
    job = recovering().when_query_failed().then("Restarting")
    assert job.state.restarts.attempts == 1


def test_lost_driver_goes_to_failure_handling():
    recovering().when_driver_ended().then("Restarting")
    recovering().when_driver_silent().then(
        "Restarting", KillDriver(epoch=1, submission_id=None, cause="DriverHeartbeatTimedOut")
    )
    recovering().when_query_failed(HOPELESS).then("Failing")


def test_desired_states_and_the_end_of_the_input_are_followed():
    recovering().when_canceled().then("Canceling")
    recovering().when_suspended().then("StopWithSavepoint")
    recovering().when_completed().then("Finished").then_outcome("FINISHED")


def test_reason_names_what_the_runtime_knows_about_slots_that_do_not_come_back():
    job = Scenario(local_recovery_timeout=10).given_executing(4).when_slots(held=2, free=2)
    job.now += timedelta(seconds=10)
    timer = TimerFired(at=job.now, timer=TimerName.LOCAL_RECOVERY, version=job.state.version, explanation="no image")
    job.apply_without_timers(timer)
    assert "the lost slots did not come back in time; no image: " in job.reason
