"""A driver status becomes events."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import (
    Capability,
    DriverState,
    DriverStatus,
    FailureReport,
    QueryReport,
    SparkReport,
)
from airflow_adaptive._core.requirements.resolution import DECLARED, Resolution
from airflow_adaptive._core.scheduler.events import DriverEnded, PlanActivated, QueryFailed
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.events import derive_events
from airflow_adaptive._engine.observation.job_observation import JobObservation
from airflow_adaptive._engine.spec import ExecutorShape
from tests.lab.scenario import UNENDED, Scenario

NOTE = "the script starts its queries itself"


@pytest.fixture
def job() -> Scenario:
    return Scenario().given_deploying(1).when_slots(held=1)


def report(job: Scenario) -> DriverStatus:
    """Of a driver that runs the newest plan."""
    assert job.state.plan is not None
    version = job.state.plan.version
    return DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.RUNNING, version=version)


def observed(job: Scenario, status: DriverStatus, submission: SubmissionStatus | None = None) -> list[Any]:
    observation = JobObservation(status=status, submission=submission)
    heartbeat = DriverHeartbeat(epoch=1, received_at=job.now)
    kept = Resolution(requirements=job.state.requirements, source=DECLARED)
    return list(derive_events(job.state, observation, kept, heartbeat, job.now, ExecutorShape(cores=1)))


def test_note_of_an_unmanaged_script_is_reported_with_its_first_plan(job: Scenario):
    for event in observed(job, replace(report(job), vertices_read=(), notice=NOTE)):
        job.when(event)
    job.then("Executing", reason=NOTE)
    assert job.state.driver is not None
    assert job.state.driver.vertices_read == ()


@pytest.mark.parametrize(
    ("intervals", "longest"),
    [
        ((None, 500, 2000), timedelta(seconds=2)),
        ((math.nan, 500), timedelta(milliseconds=500)),
        ((math.inf, 1 << 80, -1), None),
    ],
)
def test_trigger_interval_is_the_longest_that_is_possible(
    job: Scenario, intervals: tuple[Any, ...], longest: timedelta | None
):
    queries = tuple(QueryReport(name="q", active=True, trigger_interval_ms=interval) for interval in intervals)
    activations = [it for it in observed(job, replace(report(job), queries=queries)) if isinstance(it, PlanActivated)]
    assert [it.trigger_interval for it in activations] == [longest]


def test_activation_contains_what_the_spark_of_the_driver_cannot_do(job: Scenario):
    status = replace(report(job), spark=SparkReport(version="4.1.4", lacks={Capability.REPARTITION: "4.2"}))
    activations = [it for it in observed(job, status) if isinstance(it, PlanActivated)]
    assert [it.cannot_repartition for it in activations] == [
        "Spark 4.1.4 cannot change the number of state partitions; Spark 4.2 can"
    ]


@pytest.mark.parametrize(
    ("error_class", "message"),
    [
        ("SPARK_CONTEXT_STOPPED", "stopped; exit code 143: the pod was deleted"),
        ("java.lang.IllegalStateException", "stopped"),
    ],
)
def test_end_of_a_session_has_the_reason_of_the_cluster_manager(job: Scenario, error_class: str, message: str):
    failure = FailureReport(error_class=error_class, message="stopped")
    submission = SubmissionStatus(state=SubmissionState.FAILED, message="exit code 143: the pod was deleted")
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    ends = [it for it in observed(job, status, submission) if isinstance(it, DriverEnded)]
    assert [it.failure.message for it in ends] == [message]


@pytest.mark.parametrize("state", [SubmissionState.UNKNOWN, SubmissionState.FAILED])
def test_failure_of_a_driver_that_others_end_is_a_consequence(job: Scenario, state: SubmissionState):
    """A session that ends in the middle of a batch fails in many ways: here with a NullPointerException of Spark."""
    failure = FailureReport(error_class="java.lang.NullPointerException", message="session() is null")
    submission = SubmissionStatus(state=state, message="exit code 143", ended_by="driver pod p was deleted")
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    failures = [it.failure for it in observed(job, status, submission) if isinstance(it, DriverEnded | QueryFailed)]
    assert {it.error_class for it in failures} == {"DRIVER_LOST"}
    assert {it.message for it in failures} == {
        "driver pod p was deleted; java.lang.NullPointerException: session() is null"
    }
    assert {it.causes for it in failures} == {("java.lang.NullPointerException",)}


def test_driver_that_could_not_stop_a_batch_reports_no_failed_query_but_its_end(job: Scenario):
    failure = FailureReport(error_class=UNENDED.error_class, message=UNENDED.message)
    status = replace(report(job), state=DriverState.FAILED, failure=failure)
    assert not [it for it in observed(job, status) if isinstance(it, QueryFailed)]
    (end,) = observed(job, status, SubmissionStatus(state=SubmissionState.FAILED))
    assert (type(end), end.failure) == (DriverEnded, UNENDED)
