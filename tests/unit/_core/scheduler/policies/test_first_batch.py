"""A job that never commits a batch with its deployment ends after a few equal failures; an outage does not end a job that has worked."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_adaptive._core.scheduler import snapshot
from airflow_adaptive._core.scheduler.events import BatchCommitted
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_outage
from airflow_adaptive._core.scheduler.policies.first_batch import MAX_KINDS, DeploymentRecord
from airflow_adaptive._core.scheduler.state import Failing, Finished
from airflow_adaptive._engine.journal.step_document import started_again
from tests.lab.scenario import START, TRANSIENT, Scenario
from tests.lab.simulation.one_job import Simulation

BROKEN = Failure(
    error_class="java.lang.AssertionError", message="assertion failed: file /in/part-0 of 2026-11-01T10:00:00Z"
)
UNREACHABLE = Failure(
    error_class="SparkException", message="Task 3 failed: java.net.ConnectException: Connection refused"
)


def job(limit: int = 3, **options: Any) -> Scenario:
    return Scenario(
        1, 1, resource_stabilization_timeout=0, max_failures_before_first_batch=limit, **options
    ).given_executing(1)


def fail(job: Scenario, failure: Failure, times: int) -> Scenario:
    """The driver ends with the failure, and the next driver activates the plan, as often as the job restarts."""
    for _ in range(times):
        job.when_driver_ended(failure).after(300)
        if job.state.name == "Finished":
            return job
        job.when_slots(held=1).when_plan_activated()
    return job


def redeploy(job: Scenario, deployment: str) -> Scenario:
    """The next driver has another deployment, which is not prepared."""
    job.state = replace(job.state, options=replace(job.state.options, prepare_deployments=False))
    job.when_redeployed(deployment).when_driver_ended(TRANSIENT).after(300)
    return job.when_slots(held=1).when_plan_activated()


def test_third_equal_failure_before_the_first_batch_is_final():
    broken = fail(job(), BROKEN, 2)
    assert broken.state.name == "Executing"
    fail(broken, BROKEN, 1).then_outcome("FAILED")
    current = broken.state.current
    assert isinstance(current, Finished)
    assert current.cause is not None
    assert current.cause.error_class == BROKEN.error_class
    assert current.cause.message.startswith(BROKEN.message)
    assert "this happened 3 times" in current.cause.message
    assert "max_failures_before_first_batch" in broken.reason


def test_query_that_fails_in_a_living_driver_counts_as_well():
    broken = job(limit=1).when_query_failed(BROKEN)
    assert isinstance(broken.state.current, Failing)
    assert "this happened once" in broken.reason


@pytest.mark.parametrize(
    "message",
    [
        "assertion failed: file /in/part-7 of 2026-11-02T00:00:00Z",
        "assertion failed: file s3a://other/place/file.parquet of 2027-01-01",
        "assertion failed:  file file:///x of\n1",
    ],
)
def test_numbers_paths_and_times_do_not_distinguish_failures(message: str):
    broken = fail(fail(job(), BROKEN, 2), replace(BROKEN, message=message), 1)
    broken.then_outcome("FAILED")


def test_ids_and_addresses_do_not_distinguish_failures():
    record, text = DeploymentRecord(), "query {} on {} lost object Foo@{} of block deadbeefcafe"
    first = Failure(
        error_class="X", message=text.format("0b1f6c0e-6f0f-4d3c-9d57-0a8a2f2a9d11", "10.0.0.1:7077", "1b2c")
    )
    second = Failure(
        error_class="X", message=text.format("77aa6c0e-6f0f-4d3c-9d57-0a8a2f2a9d11", "10.0.0.9:41", "ffee")
    )
    assert record.failed(first, START).failed(second, START).repetitions(first, START) == 2


def test_different_failures_are_counted_separately():
    other = replace(BROKEN, message="assertion failed: another reason")
    broken = fail(fail(fail(job(), BROKEN, 2), other, 2), replace(BROKEN, error_class="Other"), 2)
    assert broken.state.name == "Executing"
    fail(broken, other, 1).then_outcome("FAILED")


def test_number_of_counted_kinds_is_bounded_and_the_newest_remain():
    record = DeploymentRecord()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for letter in letters:
        record = record.failed(Failure(error_class=letter, message=""), START)
    assert len(record.failures) == MAX_KINDS
    assert record.repetitions(Failure(error_class="z", message=""), START) == 1
    assert record.repetitions(Failure(error_class="a", message=""), START) == 0


def test_failures_after_the_first_batch_do_not_end_the_job():
    assert fail(job().when_committed(), BROKEN, 9).state.name == "Executing"


def test_idle_query_that_then_fails_again_and_again_ends():
    idle = job()
    idle.when(BatchCommitted(at=idle.now, epoch=idle.state.epoch, is_idle=True))
    fail(idle, BROKEN, 3).then_outcome("FAILED")


def test_outage_ends_only_a_job_that_has_never_worked():
    fail(job(), UNREACHABLE, 3).then_outcome("FAILED")


def test_refusals_within_seconds_do_not_end_a_job_that_has_just_started():
    """A master that restarts refuses several submissions within seconds."""
    refused, short = Failure(error_class="NOT_SUBMITTED", message="the master is a standby"), job()
    for _ in range(6):
        short.when_driver_ended(refused).after(10).when_slots(held=1).when_plan_activated()
    short.when_driver_ended(refused).then_outcome("FAILED")


def test_drivers_that_end_within_seconds_count_as_drivers_that_last():
    lost, short = Failure(error_class="DRIVER_LOST", message="the driver's process has ended (FAILED)"), job()
    for _ in range(2):
        short.when_driver_ended(lost).after(5).when_slots(held=1).when_plan_activated()
    short.when_driver_ended(lost).then_outcome("FAILED")


def test_outage_does_not_end_a_query_that_has_waited_for_data():
    idle = job()
    idle.when(BatchCommitted(at=idle.now, epoch=idle.state.epoch, is_idle=True))
    assert fail(idle, UNREACHABLE, 9).state.name == "Executing"


def test_outage_does_not_end_a_new_deployment_of_a_job_that_has_worked():
    redeployed = redeploy(job().when_committed(), "new")
    assert not redeployed.state.proved.has_committed
    assert fail(redeployed, UNREACHABLE, 9).state.name == "Executing"
    fail(redeployed, BROKEN, 3).then_outcome("FAILED")


def test_new_deployment_counts_from_zero():
    redeployed = redeploy(fail(job(), BROKEN, 2), "new")
    assert fail(redeployed, BROKEN, 2).state.name == "Executing"


def test_batch_of_the_old_driver_proves_nothing_for_the_new_deployment():
    old = job(prepare_deployments=False).when_redeployed("new").when_committed()
    old.when_driver_ended(TRANSIENT).after(300).when_slots(held=1).when_plan_activated()
    assert not old.state.proved.has_committed
    assert old.state.proved.has_reached


def test_failure_that_the_user_declares_recoverable_does_not_count():
    assert fail(job(recoverable_failures="*AssertionError"), BROKEN, 9).state.name == "Executing"


def test_new_run_of_the_same_code_remembers_its_first_batch_and_forgets_failures():
    ended = fail(job(), BROKEN, 2).when_canceled()
    again = started_again(Simulation().spec, ended.state)
    assert again.proved.failures == {}
    spec, worked = Simulation().spec, job().when_committed().when_canceled().state
    assert not started_again(spec, worked).proved.has_committed
    worked = replace(worked, proved=replace(worked.proved, deployment=spec.deployment))
    assert started_again(spec, worked).proved.has_committed


def test_batch_that_has_finished_proves_that_its_environment_works():
    finished = job().when_completed()
    assert finished.state.proved.has_reached
    assert not finished.state.proved.has_committed


def test_record_survives_the_process():
    broken = fail(job(), BROKEN, 2)
    assert snapshot.from_json(snapshot.to_json(broken.state)).proved == broken.state.proved


@pytest.mark.parametrize(
    ("error_class", "message", "causes"),
    [
        ("DRIVER_LEASE_OVER", "", ()),
        ("DEPLOY_TIMEOUT", "", ()),
        ("DRIVER_LOST", "", ()),
        ("NOT_SUBMITTED", "", ()),
        ("SUBMISSION_REFUSED", "", ()),
        ("TaskFailed", "", ("java.net.ConnectException",)),
        ("X", "", ("org.apache.kafka.common.errors.TimeoutException",)),
        ("X", "", ("java.net.SocketTimeoutException",)),
        ("X", "", ("com.amazonaws.SdkClientException",)),
        ("X", "", ("org.apache.hadoop.ipc.StandbyException",)),
        ("builtins.ConnectionRefusedError", "", ()),
        ("X", "Timed out waiting for a node assignment", ()),
        ("X", "Lost task 0.3: java.net.UnknownHostException: minio", ()),
        ("X", "Status Code: 503, AWS Service: Amazon S3", ()),
        ("X", "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", ()),
    ],
)
def test_failure_of_cluster_storage_or_brokers_can_be_an_outage(
    error_class: str, message: str, causes: tuple[str, ...]
):
    assert is_outage(Failure(error_class=error_class, message=message, causes=causes))


@pytest.mark.parametrize(
    ("error_class", "message", "causes"),
    [
        ("java.lang.AssertionError", "assertion failed: 2 sources", ()),
        ("FAILED_READ_FILE.NO_HINT", "Unexpected end of ZLIB input stream", ("java.io.EOFException",)),
        ("PYTHON_EXCEPTION", "ValueError: 5030 is no port", ("ValueError",)),
        ("AnalysisException", "cannot resolve column", ()),
    ],
)
def test_failure_of_the_job_is_no_outage(error_class: str, message: str, causes: tuple[str, ...]):
    assert not is_outage(Failure(error_class=error_class, message=message, causes=causes))
