"""The result of one poll of the external systems of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.ports import ClusterSnapshot, ControlRequests, SubmissionStatus
from airflow_adaptive.runtime.cluster.capacity_share import CapacityShare


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
    """

    status: DriverStatus | None = None
    status_read_at: datetime | None = None
    control_requests: ControlRequests = ControlRequests()
    cluster: ClusterSnapshot | None = None
    share: CapacityShare = CapacityShare()
    submission: SubmissionStatus | None = None

    @property
    def is_driver_over(self) -> bool:
        """Whether the cluster reports that the driver process has ended."""
        return self.submission is not None and self.submission.state.over
