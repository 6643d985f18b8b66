"""States before a plan runs: Created, WaitingForResources and Restarting, with the backoff of each strategy."""

from dataclasses import replace

from airflow_adaptive._core.scheduler.events import DriverEnded, DriverHeartbeatTimedOut, SchedulingStarted
from airflow_adaptive._core.scheduler.job_graph import JobGraph
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.policies.rescaling import Tier
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive._core.scheduler.state import Deploying, Restarting
from airflow_adaptive._core.scheduler.steps import KillDriver, SubmitDriver
from airflow_adaptive._core.scheduler.timeline import ReasonCode, TerminatedReason
from tests.lab.scenario import HOPELESS, TRANSIENT, Scenario
from tests.support.scheduler.rescale_scenarios import newest
from tests.support.scheduler.scenarios_by_state import rescaling


def test_scheduling_waits_for_resources_when_started():
    job = Scenario().given_waiting().then("WaitingForResources")
    assert "scheduling started" in job.reasons


def test_started_job_deploys_at_once_when_all_was_there_before():
    job = Scenario().when_slots(free=4)
    job.when(SchedulingStarted(at=job.now))
    job.then("Deploying", SubmitDriver(epoch=1, slots=4, cause="TimerFired"))


def test_start_is_ignored_when_started_already():
    job = Scenario().given_waiting()
    job.when(SchedulingStarted(at=job.now)).then("WaitingForResources", reason="SchedulingStarted ignored")


def test_deploys_at_once_when_all_desired_slots_are_there():
    job = Scenario(lower=1, upper=4).given_waiting().when_slots(free=4)
    job.then("Deploying", SubmitDriver(epoch=1, slots=4, cause="SlotsChanged"), reason="4 slot(s) are available")
    job.then_parallelism(4)


def test_deploys_with_what_suffices_when_it_has_stabilised():
    job = Scenario(lower=1, upper=4).given_waiting().when_slots(free=2)
    job.after(9.9).then("WaitingForResources")
    text = "waiting: have 2 slot(s), need at least 1 (vertex 'job' at least 1); the job waits until the number of slots is stable"
    assert job.reason == text
    job.after(0.1).then("Deploying", SubmitDriver(epoch=1, slots=2, cause="TimerFired"))


def test_stabilisation_counts_from_the_first_change():
    job = Scenario().given_waiting().when_slots(free=2).after(6).when_slots(free=3).after(4)
    job.then("Deploying", SubmitDriver(epoch=1, slots=3, cause="TimerFired"))


def test_loss_of_slots_does_not_start_the_stabilisation_again():
    job = Scenario().given_waiting().when_slots(free=2).after(5).when_slots().after(3).when_slots(free=1).after(2)
    job.then("Deploying", SubmitDriver(epoch=1, slots=1, cause="TimerFired"))


def test_waits_on_when_the_slots_are_gone_as_the_stabilisation_ends():
    job = Scenario().given_waiting().when_slots(free=2).after(5).when_slots().after(5)
    job.then("WaitingForResources").when_slots(free=2).after(9).then("WaitingForResources")
    job.after(1).then("Deploying", SubmitDriver(epoch=1, slots=2, cause="TimerFired"))


def test_deploys_with_what_is_there_when_the_wait_ends():
    job = Scenario(resource_wait_timeout=5).given_waiting(free=2).after(5)
    job.then("Deploying", SubmitDriver(epoch=1, slots=2, cause="TimerFired"), reason="resource_wait_timeout has passed")


def test_fails_and_gives_the_reason_when_the_wait_ends_below_the_minimum():
    job = Scenario(lower=3, upper=4).given_waiting(free=2).after(300).then("Finished").then_outcome("FAILED")
    assert job.reason == (
        "not enough resources: have 2 slot(s), need at least 3 (vertex 'job' at least 3): add workers, or declare lower "
        "bounds or smaller executors"
    )


def test_first_failure_of_a_working_job_does_not_wait_for_more_slots_than_before():
    job = Scenario(lower=1, upper=8).given_executing(2).when_committed().when_slots(held=2)
    job.when_driver_ended().when_slots(free=2).after(1)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"), reason="as many slots as before")
    job.when_slots(held=2).when_plan_activated().after(3).when_driver_ended().when_slots(free=2).after(5)
    job.then("WaitingForResources")


def test_recovery_that_lacks_slots_starts_when_it_has_as_many_as_before():
    job = Scenario(lower=1, upper=8).given_executing(2).when_committed().when_driver_ended().when_slots(free=1).after(2)
    job.then("WaitingForResources").when_slots(free=2)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="SlotsChanged"))


def test_waits_without_end_when_it_has_run_before():
    job = Scenario(lower=2, upper=4).given_executing(2).when_driver_ended().when_slots(free=1).after(2)
    kept = job.state.options.resource_wait_timeout
    assert kept is not None
    job.then("WaitingForResources").after(kept.total_seconds() * 100).then("WaitingForResources")
    job.when_slots(free=4).then("Deploying", SubmitDriver(epoch=2, slots=4, cause="SlotsChanged"))


def test_lower_requirements_make_what_is_there_desired():
    job = Scenario(lower=3, upper=4).given_waiting(free=2).when_requirements(1, 2)
    job.then("Deploying", SubmitDriver(epoch=1, slots=2, cause="RequirementsChanged")).then_parallelism(2)


def test_same_requirements_change_nothing_and_state_so():
    job = Scenario().given_waiting().when_requirements(1, 4)
    job.then("WaitingForResources", reason="the requirements are unchanged")


def test_same_slots_change_nothing():
    job = Scenario().given_waiting(free=0)
    reasons = len(job.reasons)
    job.when_slots(free=0).then("WaitingForResources")
    assert len(job.reasons) == reasons


def test_cancel_stops_a_driver_that_is_held():
    Scenario().given_executing(2).when_query_failed().after(1).when_canceled().then("Canceling")


def test_suspended_job_kills_a_driver_that_is_held():
    job = Scenario().given_executing(2).when_query_failed().after(1).when_suspended()
    job.then("Finished", KillDriver(epoch=1, submission_id=None, cause="SuspendRequested"))


def test_driver_that_dies_while_held_is_replaced():
    job = Scenario().given_executing(2).when_query_failed().after(1).when_driver_ended().when_slots(free=4)
    job.then("Deploying", SubmitDriver(epoch=2, slots=4, cause="SlotsChanged"))


def test_job_whose_queries_ended_before_they_could_be_stopped_is_finished():
    Scenario().given_executing(2).when_query_failed().after(1).when_completed().then_outcome("FINISHED")


SHORT = {"type": "fixed-delay", "attempts": 10, "delay": "1 s"}
KILLED = KillDriver(epoch=1, submission_id=None, cause="DriverHeartbeatTimedOut")


# ---- strategies -----------------------------------------------------------------------------------------------------


def test_fixed_delay_restarts_as_often_as_allowed():
    strategy = {"type": "fixed-delay", "attempts": 2, "delay": "5 s"}
    job = Scenario(lower=2, upper=2, restart_strategy=strategy).given_executing(2)
    for _ in range(2):
        job.when_query_failed().then("Restarting", reason="restarting in 5 s")
        job.after(4.9).then("Restarting").after(0.1).then("Deploying").when_plan_activated().then("Executing")
    job.when_query_failed().then(
        "Failing", reason="recovery is suppressed by FixedDelay(attempts=2, delay=5 s): TASK_FAILED"
    )


def test_exponential_delay_grows_and_falls_back_after_a_quiet_time():
    job = Scenario(lower=2, upper=2).given_executing(2)
    for seconds in ("1", "1.5", "2.25"):
        job.when_query_failed().then("Restarting", reason=f"restarting in {seconds} s").after(3)
        job.when_plan_activated().then("Executing")
    job.after(3600 + 3).when_query_failed().then("Restarting", reason="restarting in 1 s")


def test_jitter_changes_the_exponential_delay_the_same_way_in_a_replay():
    strategy = {"type": "exponential-delay", "initial_backoff": "100 s", "max_backoff": "200 s", "jitter_factor": 0.5}

    def delay(job: str) -> str:
        graph = JobGraph.single(job, ParallelismRange(1, 4))
        return Scenario(graph=graph, restart_strategy=strategy).given_executing(2).when_query_failed().reason

    delays = [delay(job) for job in "abcdefgh"]
    assert len(set(delays)) > 3
    assert delays == [delay(job) for job in "abcdefgh"]


def test_non_recoverable_failure_does_not_consult_the_restart_strategy():
    job = Scenario().given_executing(2).when_driver_ended(HOPELESS).then("Finished").then_outcome("FAILED")
    assert job.state.restarts.attempts == 0


# ---- after a failure ------------------------------------------------------------------------------------------------


def test_job_restarts_on_the_living_driver_when_all_desired_slots_are_there():
    job = Scenario(lower=1, upper=2).given_executing(2).when_query_failed().after(1).then("Deploying")
    assert job.state.epoch == 1


def test_job_restarts_on_a_new_driver_when_the_old_one_is_gone():
    job = Scenario(lower=1, upper=2).given_executing(2).when_driver_ended().after(1)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))


STALE = Failure(error_class="org.apache.iceberg.exceptions.NotFoundException", message="File /rows/1-m0.avro")


def test_driver_that_fails_twice_in_the_same_way_after_a_batch_is_replaced():
    """It may contain the cause, such as cached metadata of a table that was replaced."""
    job = Scenario(lower=2, upper=2).given_executing(2).when_committed().when_query_failed(STALE).after(1)
    job.then("Deploying").when_plan_activated().when_committed()
    job.when_query_failed(replace(STALE, message="File /rows/2-m0.avro"))
    job.then("Restarting", reason="in a new driver, because the driver may contain the cause").after(10)
    job.then("Restarting").when_driver_ended().after(10)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))


def test_driver_with_the_metadata_of_a_replaced_table_is_replaced_at_once():
    """Iceberg reports it once per commit to the new table, and a restart in the driver reads the old table."""
    stale = Failure(
        error_class="java.lang.IllegalStateException", message="Table UUID does not match: current=a != refreshed=b"
    )
    job = Scenario(lower=2, upper=2).given_executing(2).when_query_failed(stale).then("Restarting").after(1)
    job.when_plan_activated().when_committed().when_query_failed(stale)
    job.then("Restarting", reason="in a new driver, because the driver may contain the cause")


def test_new_driver_that_has_not_committed_a_batch_is_not_replaced():
    job = Scenario(lower=2, upper=2, restart_strategy=SHORT).given_executing(2).when_committed()
    job.when_query_failed(STALE).after(1).when_plan_activated().when_query_failed(STALE).when_driver_ended().after(1)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired")).when_plan_activated()
    for _ in range(3):
        job.when_query_failed(STALE).after(1).then("Deploying").when_plan_activated()
    assert job.state.epoch == 2


def test_driver_is_not_replaced_after_failures_that_an_outage_may_cause():
    job = Scenario(lower=2, upper=2, restart_strategy=SHORT).given_executing(2).when_committed()
    for _ in range(3):
        job.when_query_failed().after(1).then("Deploying").when_plan_activated()
    assert job.state.epoch == 1


def test_backoff_starts_when_the_silent_driver_is_gone():
    job = Scenario(lower=1, upper=2).given_executing(2).when_driver_silent().then("Restarting", KILLED)
    job.after(30).then("Restarting").when_driver_ended().then("Restarting", reason="the driver has ended")
    job.after(0.9).then("Restarting").after(0.1)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))


def test_silent_driver_is_killed_again_until_it_is_gone():
    again = KillDriver(epoch=1, submission_id=None, cause="TimerFired")
    job = Scenario().given_executing(2).when_driver_silent().then("Restarting", KILLED)
    job.after(60).then("Restarting", again).after(60).then("Restarting", again)


def test_driver_that_falls_silent_during_the_backoff_is_killed():
    strategy = {"type": "fixed-delay", "attempts": 1, "delay": "10 min"}
    job = Scenario(restart_strategy=strategy).given_executing(2).when_query_failed().after(100)
    job.when_driver_silent().then("Restarting", KILLED).after(59).then("Restarting")
    job.after(1).then("Restarting", KillDriver(epoch=1, submission_id=None, cause="TimerFired"))
    job.when_driver_silent().then("Restarting", reason="DriverHeartbeatTimedOut ignored")


def test_driver_that_ends_during_the_backoff_does_not_start_it_again():
    job = Scenario(lower=1, upper=2).given_executing(2).when_query_failed().after(0.5).when_driver_ended().after(0.5)
    job.then("Deploying", SubmitDriver(epoch=2, slots=2, cause="TimerFired"))


def test_failures_during_the_backoff_change_nothing():
    job = Scenario().given_executing(2).when_query_failed().when_query_failed(HOPELESS).then("Restarting")
    assert (job.state.num_restarts, job.state.num_rescales) == (1, 0)


def test_job_whose_driver_completes_after_a_failure_is_finished():
    """The deployment timed out, or the heartbeat of the driver did, and its queries ended before the driver was killed."""
    Scenario().given_executing(2).when_query_failed().when_completed().then("Finished")


# ---- for a rescale --------------------------------------------------------------------------------------------------


def test_target_outside_the_new_bounds_is_dropped():
    job = rescaling()
    job.apply_without_timers(job.requirements(1, 3)).fire_due_timers().then("Deploying").then_parallelism(3)


def only_executors(job: Scenario) -> Scenario:
    """The job is deployed again with `highest_rescale_tier` 0."""
    job.state = replace(job.state, options=replace(job.state.options, highest_rescale_tier=Tier.EXECUTORS))
    return job


def driver_ended() -> DriverEnded:
    return DriverEnded(at=rescaling().now, epoch=1, failure=TRANSIENT)


def test_rescale_is_abandoned_when_a_redeployment_no_longer_allows_its_tier():
    """The job decides to restart its queries; a redeployment sets `highest_rescale_tier` to 0 before the restart begins."""
    job = only_executors(rescaling())
    job.fire_due_timers().then(
        "Executing", reason="highest_rescale_tier is 0: the job keeps its plan"
    ).then_parallelism(2)
    assert newest(job).terminated_reason is TerminatedReason.NO_RESOURCES_OR_PARALLELISMS_CHANGE
    assert newest(job).vertices.after is None
    decision = job.steps[-1].decision
    assert decision is not None
    assert decision.reason_code is ReasonCode.TIER_NOT_ALLOWED


def test_new_driver_deploys_the_rescale_when_the_old_driver_ends_before_the_restart():
    job = only_executors(rescaling()).apply_without_timers(driver_ended())
    job.fire_due_timers().then("Deploying", SubmitDriver(epoch=2, slots=4, cause="TimerFired"))


def test_new_driver_deploys_the_rescale_when_the_heartbeat_times_out_before_the_restart():
    job = only_executors(rescaling())
    job.apply_without_timers(DriverHeartbeatTimedOut(at=job.now, epoch=1, failure=TRANSIENT)).then(
        "Restarting", KILLED, reason="the heartbeat of the driver timed out"
    )
    job.when(driver_ended()).then("Deploying", SubmitDriver(epoch=2, slots=4, cause="TimerFired"))


def test_deployment_of_a_rescale_keeps_the_running_plan_until_the_new_one_is_active():
    job = rescaling()
    before, current = job.state.plan, job.fire_due_timers().state.current
    assert isinstance(current, Deploying)
    assert current.previous_plan == before


def test_target_of_another_graph_is_dropped():
    job = rescaling()
    assert isinstance(job.state.current, Restarting)
    of_other_graph = replace(job.state.current, target_parallelism={"read": 2, "write": 2})
    job.state = replace(job.state, current=of_other_graph)
    job.fire_due_timers().then("Deploying").then_parallelism(4)


def test_reaching_the_target_counts_as_desired_resources():
    job = Scenario(upper=8, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.given_executing(2).apply_without_timers(job.slots(held=2, free=2))
    job.apply_without_timers(job.slots(held=2)).fire_due_timers().then("WaitingForResources")
    job.when_slots(held=2, free=2).then("Deploying").then_parallelism(4)


def test_rescale_whose_slots_have_disappeared_waits_for_resources_as_in_flink():
    job = Scenario(upper=2, scaling_interval_min=0, executing_stabilization_timeout=0, max_trigger_delay=0)
    job.given_script("job").given_executing(1).apply_without_timers(job.slots(held=1, free=1)).then("Restarting")
    job.apply_without_timers(job.slots(held=1)).fire_due_timers().then("WaitingForResources")
    job.after(job.state.options.resource_stabilization_timeout.total_seconds()).then("Deploying").then_parallelism(1)


def test_driver_that_dies_during_a_rescale_is_replaced():
    job = rescaling()
    job.when_driver_ended().then("Deploying", SubmitDriver(epoch=2, slots=4, cause="TimerFired"))


def test_input_may_be_exhausted_during_a_rescale():
    job = rescaling()
    job.apply_without_timers(job.completed()).then("Finished").then_outcome("FINISHED")


# ---- requests -------------------------------------------------------------------------------------------------------


def test_cancel_ends_at_once_when_the_driver_is_gone():
    job = Scenario().given_executing(2).when_driver_ended().when_canceled().then("Finished").then_outcome("CANCELED")
    job.after(1000).then("Finished")


def test_suspend_ends_at_once():
    job = Scenario().given_executing(2).when_query_failed().when_suspended()
    job.then("Finished", KillDriver(epoch=1, submission_id=None, cause="SuspendRequested")).then_outcome("SUSPENDED")


# ---- a driver that ends by itself while it is to stop ---------------------------------------------------------------


def stopping() -> Scenario:
    """The job waits for the end of its driver, because it has too few slots."""
    job = Scenario(lower=2, upper=2, below_lower_bound="wait").given_executing(2)
    return job.when_slots(held=1).when_slots(held=0).after(0).then("Restarting")


EVICTED = Failure(error_class="DRIVER_LOST", message="driver pod job-1 was deleted (evicted)")


def test_driver_that_ends_by_itself_is_a_failure_in_history_and_next_transition():
    job = stopping().when_driver_ended(EVICTED)
    assert [record.failure for record in job.state.failures] == [EVICTED]
    assert job.state.failures[0].decision == "the driver ended before it had stopped"
    assert job.state.num_restarts == 1
    job.then("WaitingForResources", reason=f"the restart waits for resources; the driver was lost: {EVICTED.summary}")


def test_driver_that_stops_in_order_is_no_failure():
    job = stopping()
    job.when(DriverEnded(at=job.now, epoch=1, failure=EVICTED, in_order=True))
    assert job.state.failures == ()
    job.then("WaitingForResources", reason="the restart waits for resources")


def test_driver_that_the_scheduler_kills_is_no_failure():
    job = stopping().after(61).when_driver_ended(EVICTED)
    assert job.state.failures == ()


def test_rescale_goes_on_after_a_lost_driver_and_names_it():
    job = rescaling().when_driver_ended(EVICTED)
    assert any(EVICTED.summary in step.transition.reason for step in job.steps if step.transition is not None)
