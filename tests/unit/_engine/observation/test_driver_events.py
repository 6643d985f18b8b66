"""The end of a driver, or of its heartbeat, becomes an event with a failure. Users name the classes of failures in options."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_adaptive._core.ports import SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.scheduler.events import DriverEnded, DriverHeartbeatTimedOut
from airflow_adaptive._engine.driver_heartbeat import DriverHeartbeat
from airflow_adaptive._engine.observation.driver_events import driver_events
from airflow_adaptive._engine.observation.job_observation import JobObservation
from tests.lab.scenario import Scenario

RUNNING = SubmissionStatus(state=SubmissionState.RUNNING)
STOPPED = DriverStatus(job="job", epoch=1, nonce="n", sequence=1, at="", state=DriverState.STOPPED)


def failures(
    seconds: float = 0, submission: SubmissionStatus | None = RUNNING, status: DriverStatus | None = None
) -> list[tuple[str, str]]:
    """The events about the driver of a job that runs, this time after its newest status: kind, and failure."""
    job = Scenario(driver_heartbeat_timeout="20 s", driver_lease_timeout="30 s").given_executing(2)
    now = job.now + timedelta(seconds=seconds)
    observation = JobObservation(status=status, status_read_at=now, submission=submission)
    heartbeat = DriverHeartbeat(epoch=job.state.epoch, received_at=job.now, sequence=1)
    found = driver_events(job.state, observation, heartbeat, now)
    return [
        (type(event).__name__, event.failure.summary)
        for event in found
        if isinstance(event, DriverEnded | DriverHeartbeatTimedOut)
    ]


def test_driver_without_a_new_status_times_out() -> None:
    assert failures(19.9) == []
    assert failures(20) == [
        ("DriverHeartbeatTimedOut", "DRIVER_HEARTBEAT_TIMEOUT: the driver has written no status for 20 s")
    ]


@pytest.mark.parametrize("submission", [None, SubmissionStatus(state=SubmissionState.UNKNOWN)], ids=["", "unknown"])
def test_lease_of_a_driver_that_the_cluster_does_not_know_expires_after_its_margin(
    submission: SubmissionStatus | None,
) -> None:
    """The directive allows queries, so the timeout stops the driver before it counts as ended."""
    assert failures(39.9, submission)[0][1].startswith("DRIVER_HEARTBEAT_TIMEOUT: ")
    assert failures(40, submission) == [
        (
            "DriverHeartbeatTimedOut",
            "DRIVER_LEASE_OVER: the driver has written no status for 40 s: its lease has expired",
        )
    ]
    assert failures(40, RUNNING)[0][1].startswith("DRIVER_HEARTBEAT_TIMEOUT: ")


@pytest.mark.parametrize(
    ("status", "submission", "failure"),
    [
        (
            None,
            SubmissionStatus(state=SubmissionState.FAILED, message="exit code 1"),
            "DRIVER_LOST: the driver's process has ended (FAILED): exit code 1",
        ),
        (
            None,
            SubmissionStatus(
                state=SubmissionState.FAILED, worker_address="node-1", log_command="kubectl --namespace a logs b"
            ),
            "DRIVER_LOST: the driver's process has ended (FAILED); its output: kubectl --namespace a logs b",
        ),
        (
            None,
            SubmissionStatus(state=SubmissionState.KILLED, worker_address="node-1", log_command=""),
            "DRIVER_LOST: the driver's process has ended (KILLED)",
        ),
        (
            STOPPED,
            SubmissionStatus(state=SubmissionState.FINISHED),
            "DRIVER_ORPHANED: no loop wrote to the journal for orphan_timeout: the driver stopped by itself, at a batch boundary",
        ),
        (
            None,
            SubmissionStatus(state=SubmissionState.FINISHED),
            "SCRIPT_WITHOUT_JOB: the script ended without a streaming query: start a query in the script, or call AdaptiveJob(...).run(); if the "
            "script is a batch, set job_type='batch'",
        ),
    ],
    ids=["lost", "lost with a log", "lost without a log", "orphaned", "without a query"],
)
def test_end_of_a_driver_has_a_cause(status: DriverStatus | None, submission: SubmissionStatus, failure: str) -> None:
    assert failures(0, submission, status) == [("DriverEnded", failure)]
