"""What is remembered of failures: roots, what was decided on them, and what came with them."""

from dataclasses import replace

import pytest

from airflow_adaptive._core.scheduler.events import CancelRequested, DriverEnded, DriverHeartbeatTimedOut, QueryFailed
from airflow_adaptive._core.scheduler.history.failures import (
    MAX_CAUSES,
    MAX_CONCURRENT,
    MAX_MESSAGE_CHARACTERS,
    root_cause,
)
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, FailureRecord
from airflow_adaptive._core.scheduler.state import Created
from airflow_adaptive._core.scheduler.timeline import Rescale
from tests.lab.scenario import HOPELESS, START, TRANSIENT, Scenario
from tests.support.scheduler.scenarios_by_state import rescaling


def other(number: int = 1) -> Failure:
    return Failure(error_class="OTHER", message=f"number {number}")


def newest(job: Scenario) -> FailureRecord:
    return job.state.failures[-1]


def decisions(job: Scenario) -> list[str]:
    return [record.decision for record in job.state.failures]


# ---- roots ----------------------------------------------------------------------------------------------------------


def test_job_without_failures_has_no_history():
    assert Scenario().given_executing(2).when_slots(held=2, free=2).after(600).state.failures == ()


def test_failure_is_remembered_with_what_followed():
    job = Scenario().given_executing(2).after(5).when_query_failed()
    assert newest(job) == FailureRecord(
        at=job.now, state="Executing", failure=TRANSIENT, decision="restarting in 1 s", concurrent=()
    )


@pytest.mark.parametrize(
    ("job", "decision"),
    [
        (Scenario().given_executing(2).when_query_failed(HOPELESS), "the failure is not recoverable"),
        (
            Scenario(restart_strategy="none").given_executing(2).when_query_failed(),
            "recovery is suppressed by NoRestart()",
        ),
        (Scenario().given_waiting().after(301), "the job fails"),
        (Scenario().when(QueryFailed(at=START, epoch=0, failure=other())), "the job fails"),
        (Scenario(deploy_timeout=10).given_deploying(2).after(11), "restarting in 1 s"),
        (Scenario().given_executing(2).when_driver_silent(), "restarting in 1 s"),
        (rescaling().when_driver_ended(), "the driver ended before it had stopped"),
        (
            Scenario().given_executing(2).when_query_failed().after(2).when_driver_ended(other()),
            "DriverEnded ignored in the state WaitingForResources",
        ),
    ],
    ids=[
        *(
            "hopeless",
            "no restarts",
            "no slots",
            "before the start",
            "not deployed",
            "heartbeat timeout",
            "while rescaling",
        ),
        "while waiting",
    ],
)
def test_every_failure_has_its_decision(job: Scenario, decision: str):
    assert decisions(job)[-1] == decision


def test_each_restart_has_a_root_of_its_own_even_for_the_same_failure():
    job = Scenario(resource_stabilization_timeout=0).given_executing(2)
    for _ in range(3):
        job.when_query_failed().after(10).when_plan_activated()
    assert decisions(job) == ["restarting in 1 s", "restarting in 1.5 s", "restarting in 2.25 s"]
    assert [record.failure for record in job.state.failures] == [TRANSIENT] * 3


def test_history_is_bounded():
    job = Scenario(resource_stabilization_timeout=0, failure_history_size=2).given_executing(2)
    for number in range(4):
        job.when_query_failed(other(number)).after(60).when_plan_activated()
    assert [record.failure for record in job.state.failures] == [other(2), other(3)]


def test_long_failures_are_shortened():
    job = Scenario().given_executing(2)
    job.when_query_failed(Failure(error_class="X", message="disk full " + "word " * 1000, causes=("C",) * 50))
    remembered = newest(job)
    assert MAX_MESSAGE_CHARACTERS - 10 < len(remembered.failure.message) <= MAX_MESSAGE_CHARACTERS
    assert remembered.failure.message.startswith("disk full word")
    assert remembered.failure.message.endswith("word word ...")
    assert len(remembered.failure.causes) == MAX_CAUSES
    assert remembered.decision == "restarting in 1 s"


def test_a_long_failure_without_spaces_keeps_its_beginning():
    job = Scenario().given_executing(2).when_query_failed(Failure(error_class="X", message="a" * 5000))
    assert newest(job).failure.message == "a" * (MAX_MESSAGE_CHARACTERS - 4) + " ..."


# ---- concurrent failures --------------------------------------------------------------------------------------------


def test_failures_on_the_way_through_a_restart_are_concurrent():
    job = Scenario().given_executing(2).when_query_failed().when_query_failed(other(1)).when_driver_ended(other(2))
    assert len(job.state.failures) == 1
    assert newest(job).concurrent == (other(1), other(2))


def test_failure_that_is_reported_twice_is_one():
    job = Scenario().given_executing(2).when_query_failed().when_query_failed().when_query_failed(other())
    job.when_query_failed(other()).when_driver_ended()
    assert len(job.state.failures) == 1
    assert newest(job).concurrent == (other(),)


def test_failure_that_is_reported_twice_while_rescaling_is_one():
    job = rescaling()
    for _ in range(2):
        job.apply_without_timers(QueryFailed(at=job.now, epoch=1, failure=other()))
    assert [record.failure for record in job.state.failures] == [other()]


def test_concurrent_failures_are_bounded():
    job = Scenario().given_executing(2).when_query_failed()
    for number in range(50):
        job.when_query_failed(other(number))
    assert newest(job).concurrent == tuple(other(number) for number in range(MAX_CONCURRENT))


@pytest.mark.parametrize(
    "job",
    [
        Scenario().given_executing(2).when_driver_silent(),
        Scenario().given_executing(2).when_query_failed(HOPELESS),
        Scenario().given_executing(2).when_suspended().when_savepoint_completed(),
        Scenario().given_executing(2).when_suspended().after(61),
        Scenario().given_executing(2).when_canceled(),
        Scenario().given_deploying(2).when_suspended(),
    ],
    ids=["killed", "failing", "stopped", "killed when stopping", "canceling", "suspended at once"],
)
def test_driver_that_ends_as_it_was_directed_to_has_not_failed(job: Scenario):
    before = job.state.failures
    job.when_driver_ended(other())
    assert job.state.failures == before


def test_driver_that_is_gone_already_can_t_end():
    job = (
        Scenario()
        .given_executing(2)
        .when_driver_ended()
        .apply_without_timers(DriverEnded(at=START, epoch=1, failure=other()))
    )
    assert newest(job).concurrent == ()


@pytest.mark.parametrize("event", [QueryFailed, DriverEnded, DriverHeartbeatTimedOut])
def test_failures_of_another_epoch_are_ignored(event: type[QueryFailed | DriverEnded | DriverHeartbeatTimedOut]):
    job = Scenario().given_executing(2)
    assert job.when(event(at=job.now, epoch=7, failure=other())).state.failures == ()


# ---- stop with savepoint --------------------------------------------------------------------------------------------


def test_failure_of_a_job_that_stops_is_decided_on_when_the_stop_is_over():
    job = Scenario().given_executing(2).when_suspended().when_query_failed()
    assert decisions(job) == ["the stop continues"]
    job.when_query_failed(other()).when_savepoint_failed()
    assert decisions(job) == ["restarting in 1 s"]
    assert newest(job).state == "StopWithSavepoint"
    assert newest(job).concurrent == (other(),)


def test_savepoint_despite_the_failure_leaves_the_root_as_it_was():
    job = Scenario().given_executing(2).when_suspended().when_query_failed().when_savepoint_completed()
    assert decisions(job) == ["restarting in 1 s"]
    assert newest(job).failure == TRANSIENT


def test_stopping_job_that_is_canceled_reports_it():
    job = Scenario().given_executing(2).when_suspended().when_query_failed()
    job.when(CancelRequested(at=job.now))
    assert decisions(job) == ["canceled as requested"]


# ---- the end --------------------------------------------------------------------------------------------------------


def test_root_cause_counts_what_came_with_it():
    job = Scenario().given_executing(2).when_query_failed(HOPELESS)
    job.when_query_failed(other(1)).when_driver_ended()
    assert root_cause(job.state) == "SyntaxError: invalid syntax (and 1 concurrent failure)"
    job = Scenario().given_executing(2).when_query_failed(HOPELESS).when_query_failed(other(1))
    job.when_query_failed(other(2)).when_driver_ended()
    assert root_cause(job.state) == "SyntaxError: invalid syntax (and 2 concurrent failures)"


@pytest.mark.parametrize(("failure", "last"), [(HOPELESS, HOPELESS.summary), (TRANSIENT, None)])
def test_root_cause_is_known_from_the_failure_until_the_job_runs_again(failure: Failure, last: str | None):
    job = Scenario().given_executing(2)
    assert root_cause(job.state) is None
    assert root_cause(job.when_query_failed(failure).state) == failure.summary
    job = job.when_driver_ended() if last else job.after(100).when_plan_activated()
    assert root_cause(job.state) == last


def test_root_cause_of_a_restart_is_known_until_a_driver_has_completed_a_trigger():
    job = Scenario().given_executing(2).when_committed().when_driver_ended()
    assert root_cause(job.state, newest_rescale(job)) == TRANSIENT.summary
    job.after(100)
    assert (job.state.name, root_cause(job.state, newest_rescale(job))) == ("Deploying", TRANSIENT.summary)
    job.when_plan_activated()
    assert (job.state.name, root_cause(job.state, newest_rescale(job))) == ("Executing", TRANSIENT.summary)
    job.when_committed()
    assert root_cause(job.state, newest_rescale(job)) is None
    assert root_cause(replace(job.state, current=Created(), driver=None), newest_rescale(job)) is None


def test_driver_that_has_worked_and_fails_again_and_again_has_a_root_cause():
    job = Scenario().given_executing(2).when_committed().when_query_failed(other(1)).after(100).when_plan_activated()
    assert (job.state.name, root_cause(job.state, newest_rescale(job))) == ("Executing", other(1).summary)
    assert root_cause(job.when_committed().state, newest_rescale(job)) is None


def test_rescale_after_a_failure_has_no_root_cause():
    job = Scenario(highest_rescale_tier=3).given_executing(2).when_driver_ended().after(100).when_plan_activated()
    job.when_committed().when_slots(held=1).after(100)
    assert job.state.failures
    assert root_cause(job.state, newest_rescale(job)) is None


def newest_rescale(job: Scenario) -> Rescale | None:
    """The rescale in progress, or else the one that ended last."""
    ended = [step.rescale for step in job.steps if step.rescale is not None]
    return job.state.timeline.rescale or (ended[-1] if ended else None)


def test_root_cause_of_a_job_whose_history_is_unknown():
    job = Scenario().given_executing(2).when_query_failed(HOPELESS).when_driver_ended()
    assert root_cause(replace(job.state, failures=())) == HOPELESS.summary
