"""The result of one poll of the external systems of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_adaptive._core.ports import ClusterSnapshot, SubmissionState, SubmissionStatus
from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._engine.cluster.capacity_share import CapacityShare


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """The state of the external systems at one moment. Unknown values are None.

    Attributes:
        status: status of the driver of the current epoch.
        status_read_at: when the status was read, None if this poll cannot decide whether the driver has missed its heartbeat.
        control_requests: requests of users and programs.
        cluster: workers and grants.
        share: capacity share of the job, in addition to the executors that the job has.
        submission: state of the driver process.
        cluster_error: why the cluster did not answer this poll, None if it did.
        unaccounted_for: time for which the cluster has not known whether the driver process exists; None while it knows.
    """

    status: DriverStatus | None = None
    status_read_at: datetime | None = None
    control_requests: ControlRequests = ControlRequests()
    cluster: ClusterSnapshot | None = None
    share: CapacityShare = CapacityShare()
    submission: SubmissionStatus | None = None
    cluster_error: str | None = None
    unaccounted_for: timedelta | None = None

    @property
    def cluster_report(self) -> str:
        """What the cluster reports about a driver that it cannot account for, or why it reports nothing; "" if nothing is known."""
        if self.submission is not None and self.submission.state is SubmissionState.UNKNOWN:
            return self.submission.message
        return self.cluster_error or ""

    @property
    def is_driver_over(self) -> bool:
        """Whether the cluster reports that the driver process has ended."""
        return self.submission is not None and self.submission.state.over
