"""WaitingForResources: at once, after stabilisation, after the wait, or without end."""

from airflow_adaptive._core.scheduler.commands import KillDriver, SubmitDriver
from tests.lab.scenario import Scenario


def test_deploys_at_once_when_all_desired_slots_are_there():
    job = Scenario(lower=1, upper=4).given_waiting().when_slots(free=4)
    job.then("Deploying", SubmitDriver(epoch=1, slots=4, cause="SlotsChanged"), reason="4 slot(s) are available")
    job.then_parallelism(4)


def test_takes_no_more_than_the_upper_bound():
    Scenario(lower=1, upper=4).given_waiting().when_slots(free=9).then_parallelism(4)


def test_deploys_with_what_suffices_when_it_has_stabilised():
    job = Scenario(lower=1, upper=4).given_waiting().when_slots(free=2)
    job.after(9.9).then("WaitingForResources", reason="have 2 slot(s), need at least 1")
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


def test_waits_without_end_when_configured_so():
    Scenario(resource_wait_timeout=-1).given_waiting().after(10**7).then("WaitingForResources")


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


def test_zero_stabilisation_deploys_with_what_suffices_at_once():
    job = Scenario(resource_stabilization_timeout=0).given_waiting().when_slots(free=1)
    job.then("Deploying", SubmitDriver(epoch=1, slots=1, cause="SlotsChanged"))


def test_living_driver_is_kept_for_the_next_plan():
    job = Scenario().given_executing(2).when_query_failed().after(1).then("WaitingForResources")
    job.after(10).then("Deploying").then_parallelism(2)


def test_cancel_stops_a_driver_that_is_held():
    Scenario().given_executing(2).when_query_failed().after(1).when_canceled().then("Canceling")


def test_end_comes_at_once_when_requested():
    Scenario().given_waiting().when_canceled().then("Finished").then_outcome("CANCELED")
    Scenario().given_waiting().when_suspended().then("Finished").then_outcome("SUSPENDED")
    Scenario().given_waiting().when_query_failed().then("Finished").then_outcome("FAILED")


def test_suspended_job_kills_a_driver_that_is_held():
    job = Scenario().given_executing(2).when_query_failed().after(1).when_suspended()
    job.then("Finished", KillDriver(epoch=1, submission_id=None, cause="SuspendRequested"))


def test_driver_that_dies_while_held_is_replaced():
    job = Scenario().given_executing(2).when_query_failed().after(1).when_driver_ended().when_slots(free=4)
    job.then("Deploying", SubmitDriver(epoch=2, slots=4, cause="SlotsChanged"))


def test_job_whose_queries_ended_before_they_could_be_stopped_is_finished():
    Scenario().given_executing(2).when_query_failed().after(1).when_completed().then_outcome("FINISHED")
