"""Polls the external systems of one job: the driver status, the slots of the cluster and the driver process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from airflow_adaptive._core.failure_code import with_code
from airflow_adaptive._core.ports import (
    ClusterClient,
    ClusterSnapshot,
    ClusterUnreachableError,
    JobDirectory,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive._core.requirements.control_requests import ControlRequests
from airflow_adaptive._core.scheduler.state import Driver, SchedulerState
from airflow_adaptive._engine.cluster.capacity_share import CapacityShare, SlotDemand
from airflow_adaptive._engine.cluster.shared_cluster import Participant
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.rate_limit import FilePolling

log = logging.getLogger(__name__)


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
        standby_status: status of the standby.
        standby_submission: state of the process of the standby.
        standby_silence: time for which the standby has written no new status.
        cluster_error: why the cluster did not answer this poll, None if it did.
        unaccounted_for: time for which the cluster has not known whether the driver process exists; None while it knows.
    """

    status: DriverStatus | None = None
    status_read_at: datetime | None = None
    control_requests: ControlRequests = ControlRequests()
    cluster: ClusterSnapshot | None = None
    share: CapacityShare = CapacityShare()
    submission: SubmissionStatus | None = None
    standby_status: DriverStatus | None = None
    standby_submission: SubmissionStatus | None = None
    standby_silence: timedelta = timedelta(0)
    cluster_error: str | None = None
    unaccounted_for: timedelta | None = None

    @property
    def of_standby(self) -> JobObservation:
        """The observation with the standby in place of the driver."""
        return replace(self, status=self.standby_status, submission=self.standby_submission)

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


Answer = TypeVar("Answer")

GRACE_PERIOD = timedelta(seconds=3)
"""Longer than a running driver needs to write its next status (`_core.protocol.conf.DriverSettings.heartbeat_interval_s`)."""


class Observer:
    """Observes one job for one loop."""

    def __init__(
        self, cluster: ClusterClient, directory: JobDirectory, participant: Participant, file_polling: FilePolling
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._participant = participant
        self._file_polling = file_polling
        self._readable_since: datetime | None = None
        self.status: DriverStatus | None = None
        """Newest driver status, of any epoch.

        A read that finds no status keeps the previous one, because Hadoop's local file system deletes a file before it replaces it.
        """
        self.last_error: str | None = None
        """The reason why the newest poll of the cluster failed, None if the poll succeeded."""
        self._unaccounted: tuple[str | None, datetime] | None = None
        """Driver that the cluster cannot account for, and since when; None while it can."""
        self._standby_status: DriverStatus | None = None
        """Newest status of a standby, kept as `status` is."""
        self._standby_heartbeat: tuple[tuple[int, int] | None, datetime] | None = None
        """Epoch and sequence number of the newest status of the standby, and since when."""
        self._errors = OnceLogger(log, logging.INFO)

    @property
    def has_read_status(self) -> bool:
        """Whether the newest poll could read the driver status."""
        return self._readable_since is not None

    def interrupt(self) -> None:
        """Record an outage of the job directory. A missing heartbeat is not evidence of a dead driver until the directory is readable again."""
        self._readable_since = self._standby_heartbeat = None

    async def read_status(self, now: datetime) -> datetime | None:
        """Read the driver status if file polling is due, and return the time of the read. Raises `JobDirectoryError`.

        None if the poll cannot decide whether the driver has missed its heartbeat: after a start and after an outage, the driver first gets a grace
        period in which to write a status.
        """
        if not self._file_polling.is_due:
            return None
        await self.read_last_status()
        self._readable_since = self._readable_since or now
        return now if now - self._readable_since >= GRACE_PERIOD else None

    async def read_standby_status(self, state: SchedulerState, nonce: str) -> DriverStatus | None:
        """Return the status of the standby, None without one, or before its first status. Raises `JobDirectoryError`."""
        driver = state.standby.driver
        if driver is None:
            self._standby_status = None
        elif self._file_polling.is_due:
            self._standby_status = await self._directory.status(of_standby=True) or self._standby_status
        status = self._standby_status
        is_its_own = driver is not None and status is not None and (status.epoch, status.nonce) == (driver.epoch, nonce)
        return status if is_its_own else None

    async def read_last_status(self) -> None:
        """Read the driver status. Raises `JobDirectoryError`.

        A driver that the cluster reports as ended may have written its last status after the read of this cycle.
        """
        self.status = await self._directory.status() or self.status

    async def observe_cluster(
        self, observation: JobObservation, demand: SlotDemand, state: SchedulerState, max_age: timedelta, now: datetime
    ) -> JobObservation:
        """Add the cluster, the capacity share and the states of the driver processes to an observation without these parts."""
        self.last_error = None
        view = await self._answer(self._participant.observe(demand, max_age))
        driver, cluster = state.driver, None if view is None else view.cluster
        submission = await self._submission(driver, cluster, observation.status)
        standby = await self._submission(state.standby.driver, cluster, observation.standby_status)
        self._errors.report(self.last_error)
        unaccounted_for = self._unaccounted_for(driver, submission, now)
        observed = replace(
            observation,
            submission=submission,
            standby_submission=standby,
            standby_silence=self._silence(observation.standby_status, now),
            cluster_error=self.last_error,
            unaccounted_for=unaccounted_for,
        )
        return observed if view is None else replace(observed, cluster=view.cluster, share=view.share)

    def _silence(self, status: DriverStatus | None, now: datetime) -> timedelta:
        heartbeat = None if status is None else (status.epoch, status.sequence)
        if self._standby_heartbeat is None or self._standby_heartbeat[0] != heartbeat:
            self._standby_heartbeat = heartbeat, now
        return now - self._standby_heartbeat[1]

    def _unaccounted_for(
        self, driver: Driver | None, submission: SubmissionStatus | None, now: datetime
    ) -> timedelta | None:
        if driver is None or submission is None or submission.state is not SubmissionState.UNKNOWN:
            self._unaccounted = None
            return None
        if self._unaccounted is None or self._unaccounted[0] != driver.submission_id:
            self._unaccounted = driver.submission_id, now
        return now - self._unaccounted[1]

    async def _submission(
        self, driver: Driver | None, cluster: ClusterSnapshot | None, status: DriverStatus | None
    ) -> SubmissionStatus | None:
        """Return the state of the driver process: a running driver appears in the shared snapshot; for any other driver, query the master.

        A shared snapshot may be older than the failure that a driver reports because others end it.
        """
        if driver is None or driver.submission_id is None or (cluster is None and not self._file_polling.is_due):
            return None
        running = None if cluster is None else cluster.drivers.get(driver.submission_id)
        if running is not None and (status is None or status.state is not DriverState.FAILED):
            return SubmissionStatus(
                state=running.state,
                message=running.message,
                worker_address=running.worker_address,
                can_start=running.can_start,
                leaves=running.leaves,
            )
        return await self._answer(self._cluster.status(driver.submission_id))

    async def _answer(self, question: Awaitable[Answer]) -> Answer | None:
        """Return the answer of the cluster, None without one. The first error of a poll is the one that is reported."""
        try:
            return await question
        except ClusterUnreachableError as error:
            self.last_error = self.last_error or f"the cluster does not answer: {with_code(error)}"
            return None
