"""Deploying: until the plan is active on all its slots, or `deploy_timeout` ends."""

from dataclasses import replace
from datetime import timedelta

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.scheduler.events import (
    DriverSubmitted,
    PlanActivated,
    SubmissionUnanswered,
    TimerFired,
    TimerName,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from tests.lab.scenario import HOPELESS, Scenario

GANG = Failure(error_class="REAL_TIME_MODE_SLOTS", message="the gang needs 3 slots")


def test_executes_when_the_driver_reports_the_plan_active():
    job = Scenario().given_deploying(2).when_slots(held=2).when_plan_activated().then("Executing").then_parallelism(2)
    assert job.state.has_run
    assert job.state.driver is not None
    assert job.state.driver.running


def test_slots_that_are_still_to_come_are_awaited():
    job = Scenario().given_deploying(4).when_slots(held=1, free=3).when_plan_activated()
    job.then("Deploying", reason="active on 1 of 4 slot(s)")
    job.when_slots(held=3, free=1).then("Deploying", reason="active on 3 of 4 slot(s)")
    job.when_slots(held=4).then("Executing")


def test_notice_of_a_driver_is_reported_with_its_first_plan_only():
    job, notice = Scenario().given_script().given_deploying(1).when_slots(held=1, free=1), "it is an unmanaged script"
    job.when(replace(job.plan_activated(), notice=notice)).then(
        "Executing", reason=f"the driver has activated the plan; {notice}"
    )
    job.when_slots(held=1, free=3).after(60).then("Deploying")
    job.when_slots(held=4).when(replace(job.plan_activated(), notice=notice)).then("Executing")
    assert notice not in job.reasons[-1]


def test_notice_of_a_driver_is_reported_while_slots_are_pending():
    job = Scenario().given_deploying(2).when_slots(held=1, free=1)
    job.when(replace(job.plan_activated(), notice="an unmanaged script"))
    job.then("Deploying", reason="active on 1 of 2 slot(s), and the other slots have not arrived; an unmanaged script")


def test_plan_of_another_version_is_not_taken_for_this_one():
    job = Scenario().given_deploying(2).when_slots(held=2)
    job.when(PlanActivated(at=job.now, epoch=1, version=1)).then("Deploying")


def test_submission_id_is_remembered_for_the_kill():
    job = Scenario().given_deploying(2)
    job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1")).when_canceled()
    job.then("Finished", KillDriver(epoch=1, submission_id="driver-1", cause="CancelRequested"))


def test_submission_id_of_a_driver_that_is_gone_is_not_kept():
    job = Scenario().given_deploying(2).when_driver_ended()
    job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1"))
    assert job.state.driver is None


def test_plans_again_with_what_arrived_when_it_takes_too_long():
    job = Scenario().given_deploying(4).when_slots(held=2).after(300)
    job.then("Deploying").then_parallelism(2)
    assert "only 2 of 4 slot(s) arrived in 300 s: the scheduler makes another plan" in job.reasons
    assert job.path[-3:] == ["Deploying", "Restarting", "Deploying"]
    assert job.state.restarts.attempts == 0


def test_plans_again_when_the_plan_is_active_on_too_few_slots():
    job = Scenario().given_deploying(4).when_slots(held=2).when_plan_activated().after(300).then("Deploying")
    job.when_plan_activated().then("Executing").then_parallelism(2)


def test_fails_over_when_nothing_arrived_in_time():
    job = Scenario().given_deploying(2).when_slots(free=2).after(300)
    job.then("Restarting", KillDriver(epoch=1, submission_id=None, cause="TimerFired"), reason="DEPLOY_TIMEOUT")
    assert job.state.restarts.attempts == 1
    job.when_driver_ended().after(1).then("WaitingForResources")


def test_fails_over_when_all_slots_arrived_but_the_plan_is_not_active():
    job = Scenario().given_deploying(2).when_slots(held=2).after(300)
    killed = KillDriver(epoch=1, submission_id=None, cause="TimerFired")
    job.then("Restarting", killed, reason="not active after 300 s; 2 slot(s) had arrived")


def test_failure_goes_to_failure_handling():
    Scenario().given_deploying(2).when_driver_ended().then("Restarting", reason="restarting in 1 s")
    Scenario().given_deploying(2).when_query_failed().then("Restarting", reason="restarting in 1 s")
    Scenario().given_deploying(2).when_query_failed(HOPELESS).then(
        "Finished", KillDriver(epoch=1, submission_id=None, cause="QueryFailed"), reason="not recoverable"
    )
    Scenario().given_deploying(2).when_driver_silent().then(
        "Restarting", KillDriver(epoch=1, submission_id=None, cause="DriverHeartbeatTimedOut")
    )


def test_ends_when_the_input_is_exhausted():
    Scenario().given_deploying(2).when_completed().then("Finished").then_outcome("FINISHED")


def test_cancel_kills_a_driver_that_has_not_run_yet():
    killed = KillDriver(epoch=1, submission_id=None, cause="CancelRequested")
    Scenario().given_deploying(2).when_canceled().then("Finished", killed).then_outcome("CANCELED")


def test_suspend_kills_a_driver_that_has_not_run_yet():
    killed = KillDriver(epoch=1, submission_id=None, cause="SuspendRequested")
    Scenario().given_deploying(2).when_suspended().then("Finished", killed).then_outcome("SUSPENDED")


def test_running_driver_is_stopped_gracefully():
    def redeploying() -> Scenario:
        job = Scenario(scaling_interval_min=0, max_trigger_delay=0).given_executing(2)
        return job.when_slots(held=2, free=2).then("Deploying")

    redeploying().when_canceled().then("Canceling")
    redeploying().when_suspended().then("StopWithSavepoint")
    redeploying().when_query_failed(HOPELESS).then("Failing")


def test_first_plan_that_the_driver_rejects_is_replaced_when_the_lower_bounds_have_risen():
    job = Scenario().given_deploying(2).when_slots(held=2, free=2)
    job.when_rejected(GANG).then("Deploying")
    job.when_requirements(3, 4).then("Deploying", reason="the requirements are recorded")
    job.when_rejected(GANG).then("Deploying").then_parallelism(4)
    assert job.path[-3:] == ["Deploying", "Restarting", "Deploying"]
    assert "the gang needs 3 slots: {'job': 2} -> {'job': 4}" in job.reasons
    assert (job.state.epoch, job.state.restarts.attempts) == (1, 0)


def test_job_waits_when_its_first_plan_is_rejected_and_slots_do_not_suffice():
    job = Scenario().given_deploying(2).when_slots(held=2).when_requirements(3, 4)
    job.when_rejected(GANG).then("Restarting", reason="the gang needs 3 slots: have 2 slot(s), need at least 3")
    job.when_driver_ended().after(1).then("WaitingForResources")
    assert job.state.restarts.attempts == 0
    job.when_slots(free=3).after(60).then("Deploying", SubmitDriver(epoch=2, slots=3, cause="TimerFired"))


def test_requirements_are_noted_for_the_next_plan():
    job = Scenario(scaling_interval_min=0, max_trigger_delay=0).given_deploying(2)
    job.when_requirements(1, 1).then("Deploying", reason="the requirements are recorded")
    job.when_slots(held=2).when_plan_activated().then("Deploying").then_parallelism(1)


def growing() -> Scenario:
    """From two slots to four, on a driver that runs."""
    job = Scenario(scaling_interval_min=0, max_trigger_delay=0).given_executing(2)
    return job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)


def test_running_job_plans_again_at_once_when_slots_are_lost_on_the_way():
    job = growing().when_slots(held=2, free=1).then("Deploying").then_parallelism(3)
    assert "only 3 of 4 slot(s) are left: the scheduler makes another plan" in job.reasons


def test_running_job_stops_at_once_when_the_minimum_is_lost_on_the_way():
    growing().when_slots().then("Restarting", reason="only 0 of 4 slot(s) are left: have 0 slot(s), need at least 1")


def registered(job: Scenario) -> Scenario:
    """The application is known to the cluster, and so is what it was granted."""
    return job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1", application_id="app-1"))


def test_new_driver_that_was_granted_too_little_plans_again_at_once():
    job = registered(Scenario().given_deploying(4).when_slots(held=1, free=1)).then("Deploying").then_parallelism(2)
    assert "only 2 of 4 slot(s) are left: the scheduler makes another plan" in job.reasons


def test_new_driver_with_fewer_slots_than_the_minimum_releases_all_slots_at_once():
    job = registered(Scenario(lower=2).given_deploying(4).when_slots(held=1))
    job.then("Restarting", reason="only 1 of 4 slot(s) are left: have 1 slot(s), need at least 2")
    assert job.state.restarts.attempts == 0
    job.when_driver_ended().then("WaitingForResources")


def test_new_driver_waits_for_slots_that_are_still_to_be_had():
    registered(Scenario().given_deploying(4).when_slots(held=1, free=3)).after(299).then("Deploying")


def test_first_deployment_waits_for_slots_that_are_not_visible_yet():
    Scenario().given_deploying(2).when_slots().then("Deploying").after(299).then("Deploying")


REFUSED = Failure(error_class=FailureCode.SUBMISSION_REFUSED, message="access denied (401)")


def test_first_driver_that_the_cluster_refuses_ends_the_job():
    Scenario().given_deploying(2).when_driver_ended(REFUSED).then("Finished", reason="access denied (401)")


def test_refused_driver_is_retried_if_the_cluster_has_accepted_one_before():
    job = registered(Scenario().given_deploying(2).when_slots(held=1, free=1)).when_driver_ended().then("Restarting")
    job.after(60).when_slots(free=2).then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))
    job.when_driver_ended(REFUSED).then("Restarting")


def test_failure_names_what_the_runtime_knows_about_a_missed_deadline():
    job = Scenario(deploy_timeout=10).given_deploying(2)
    job.now += timedelta(seconds=10)
    timer = TimerFired(at=job.now, timer=TimerName.DEPLOY, version=job.state.version, explanation="no image")
    job.apply_without_timers(timer).then("Restarting", KillDriver(epoch=1, submission_id=None, cause="TimerFired"))
    assert job.state.failures[0].failure.message.endswith("0 slot(s) had arrived; no image")


def test_submission_without_an_answer_is_a_fact_until_the_driver_is_known():
    job = Scenario().given_deploying(2)
    job.when(SubmissionUnanswered(at=job.now, epoch=1, reason="check rest-port"))
    job.then("Deploying", reason="whether the cluster accepted the driver is unknown: check rest-port")
    assert job.state.driver is not None
    assert job.state.driver.unanswered == "check rest-port"
    job.when(DriverSubmitted(at=job.now, epoch=1, submission_id="driver-1"))
    assert job.state.driver.unanswered == ""
    job.when_driver_ended().when(SubmissionUnanswered(at=job.now, epoch=1, reason="late")).then("Restarting")
