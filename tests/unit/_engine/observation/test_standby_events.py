"""The status and the process of a standby become events of its epoch, and a stopped driver hands over before its process has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus, FailureReport
from airflow_adaptive._core.scheduler.events import (
    DriverEnded,
    DriverHeartbeatTimedOut,
    DriverPrepared,
    DriverSubmitted,
)
from airflow_adaptive._engine.cluster.capacity_share import slot_demand
from airflow_adaptive._engine.directive import directive
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.driver_events import ROOM_TIMEOUT, driver_events, standby_events
from airflow_adaptive._engine.observation.observer import JobObservation
from airflow_adaptive._engine.spec import ExecutorShape, JobSpec
from tests.lab.scenario import Scenario

AT_ONCE: dict[str, Any] = {"scaling_interval_min": 0, "executing_stabilization_timeout": 0, "max_trigger_delay": 0}
RUNNING = SubmissionStatus(state=SubmissionState.RUNNING)
CORDONED = replace(RUNNING, leaves="node a of the driver was cordoned")
PREPARED = DriverStatus(
    job="job",
    epoch=2,
    nonce="n",
    sequence=1,
    at="",
    state=DriverState.PREPARED,
    submission_id="driver-2",
    application_id="app-2",
)


@pytest.fixture
def job() -> Scenario:
    """A job with a standby in preparation."""
    running = Scenario(upper=2, **AT_ONCE, standby="driver+executors").given_executing(2)
    return running.when_slots(held=2, standby=(0, 2)).when_committed()


def observed(job: Scenario, status: DriverStatus | None, submission: SubmissionStatus | None = RUNNING) -> list[Any]:
    observation = JobObservation(standby_status=status, standby_submission=submission)
    return list(standby_events(job.state, observation, job.now))


def test_job_without_a_standby_has_no_events_of_one() -> None:
    assert observed(Scenario().given_executing(1), PREPARED) == []


def test_prepared_standby_reports_its_ids_and_that_it_is_prepared(job: Scenario) -> None:
    identified, prepared = observed(job, PREPARED)
    assert (identified.submission_id, identified.application_id) == ("driver-2", "app-2")
    assert prepared == DriverPrepared(at=job.now, epoch=2)
    job.when(identified).when(prepared)
    assert observed(job, PREPARED) == []


def test_standby_that_starts_reports_only_its_ids(job: Scenario) -> None:
    (event,) = observed(job, replace(PREPARED, state=DriverState.STARTING))
    assert isinstance(event, DriverSubmitted)
    assert observed(job, replace(PREPARED, submission_id=None)) == [DriverPrepared(at=job.now, epoch=2)]
    assert observed(job, None) == []


@pytest.mark.parametrize("failure", [None, FailureReport(error_class="ValueError", message="no such column")])
def test_end_of_the_process_is_the_end_of_the_standby(job: Scenario, failure: FailureReport | None) -> None:
    over = SubmissionStatus(state=SubmissionState.FAILED, message="exit code 1")
    for status in (replace(PREPARED, failure=failure), None):
        (event,) = observed(job, status, over)
        assert isinstance(event, DriverEnded)
        known = status is not None and failure is not None
        assert event.failure.error_class == ("ValueError" if known else FailureCode.DRIVER_LOST)
    ends = [it for it in observed(job, None, replace(over, leaves=CORDONED.leaves)) if isinstance(it, DriverEnded)]
    assert [it.failure.error_class for it in ends] == [FailureCode.DRIVER_MOVED]


def test_standby_that_reports_a_failure_is_to_be_killed(job: Scenario) -> None:
    failed = replace(PREPARED, state=DriverState.FAILED, failure=FailureReport(error_class="ValueError", message="x"))
    (event,) = observed(job, failed)
    assert isinstance(event, DriverHeartbeatTimedOut)
    assert event.failure.error_class == "ValueError"


@pytest.mark.parametrize("message", ["", "no worker has 2 cores"])
def test_standby_that_waits_for_a_worker_has_no_room(job: Scenario, message: str) -> None:
    waiting = SubmissionStatus(state=SubmissionState.SUBMITTED, message=message)
    assert observed(job, None, waiting) == []
    job.now += ROOM_TIMEOUT
    (event,) = observed(job, None, waiting)
    assert (event.failure.error_class, message in event.failure.message) == (FailureCode.NO_ROOM_FOR_STANDBY, True)
    assert isinstance(observed(job, PREPARED, waiting)[-1], DriverPrepared)


def test_standby_that_can_never_start_is_no_lack_of_room(job: Scenario) -> None:
    job.now += ROOM_TIMEOUT
    stuck = SubmissionStatus(state=SubmissionState.SUBMITTED, message="ErrImagePull", can_start=False)
    (event,) = observed(job, None, stuck)
    assert (event.failure.error_class, event.failure.message) == (FailureCode.DRIVER_NOT_STARTED, "ErrImagePull")


@pytest.mark.parametrize("message", ["", "its worker is lost"])
def test_prepared_standby_that_the_cluster_does_not_know_is_given_up(job: Scenario, message: str) -> None:
    (event,) = observed(job, PREPARED, SubmissionStatus(state=SubmissionState.UNKNOWN, message=message))
    assert isinstance(event, DriverHeartbeatTimedOut)
    assert message in event.failure.message


def test_standby_that_is_silent_is_given_up(job: Scenario) -> None:
    timeout = job.state.options.driver_heartbeat_timeout
    for silence, event_type in ((timeout / 2, DriverSubmitted), (timeout, DriverHeartbeatTimedOut)):
        observation = JobObservation(standby_status=PREPARED, standby_submission=RUNNING, standby_silence=silence)
        assert isinstance(next(standby_events(job.state, observation, job.now)), event_type)


def stopped(job: Scenario, submission: SubmissionStatus | None) -> list[Any]:
    """The events of a driver that has stopped its queries."""
    status = DriverStatus(job="job", epoch=1, nonce="n", sequence=9, at="", state=DriverState.STOPPED, is_managed=True)
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now)
    return list(driver_events(job.state, JobObservation(status=status, submission=submission), heartbeat, job.now))


def test_stopped_driver_hands_over_before_its_process_has_ended(job: Scenario) -> None:
    job.when_redeployed("new").when_prepared()
    assert job.state.name == "Restarting"
    for submission, is_confirmed in ((RUNNING, False), (SubmissionStatus(state=SubmissionState.FINISHED), True)):
        (event,) = stopped(job, submission)
        assert (event.in_order, event.is_confirmed) == (True, is_confirmed)


def test_stopped_driver_without_a_replacement_ends_with_its_process() -> None:
    job = Scenario(**AT_ONCE, prepare_deployments=False).given_executing(2).when_redeployed("new")
    assert stopped(job, RUNNING) == []


def test_standby_gets_a_plan_for_all_vertices_and_follows_an_ended_driver(job: Scenario) -> None:
    spec = JobSpec(graph=job.state.job, options=job.state.options, script="s.py", py_files=(), directory="d")
    standby = directive(job.state, "n", ExecutorShape(cores=1)).standby
    assert standby is not None
    assert standby.plan is not None
    assert (standby.epoch, standby.plan.parallelism, standby.holds_executors) == (2, {"job": 2}, True)
    assert slot_demand(spec, job.state, job.now).planned == 2
    job.when_prepared().when_slots().when_driver_ended()
    waits = slot_demand(spec, job.state, job.now + timedelta(seconds=1))
    assert (waits.has_driver, waits.planned) == (True, 0)


def test_standby_whose_machine_is_drained_is_replaced(job: Scenario) -> None:
    for _ in range(2):
        (event,) = observed(job, PREPARED, CORDONED)
        assert isinstance(event, DriverHeartbeatTimedOut)
        assert (event.failure.error_class, event.failure.message) == ("DRIVER_MOVED", CORDONED.leaves)
        job.when_prepared()


@pytest.mark.parametrize("end", ["when_driver_ended", "when_driver_silent"])
def test_standby_whose_machine_is_drained_completes_its_takeover(job: Scenario, end: str) -> None:
    getattr(job.when_prepared(), end)()
    assert not [it for it in observed(job, PREPARED, CORDONED) if isinstance(it, DriverHeartbeatTimedOut)]
