"""Sees what there is to see of a job: its driver's report, and what the cluster knows of slots and of the driver."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

from airflow_adaptive.job.protocol.documents import DriverStatus
from airflow_adaptive.ports import ClusterClient, ClusterSnapshot, ClusterUnreachableError, JobChannel, SubmissionStatus
from airflow_adaptive.runtime.cluster.capacity_share import SlotDemand
from airflow_adaptive.runtime.cluster.shared_cluster import Participant
from airflow_adaptive.runtime.observation.events import JobObservation
from airflow_adaptive.runtime.observation.file_polling import FilePolling
from airflow_adaptive.scheduler.state import Driver

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

FIRST_LISTENING: Final = timedelta(seconds=3)
"""Longer than it takes a driver that lives to report again (`job.protocol.conf.DriverSettings.heartbeat_interval_s`)."""


class Observer:
    """Looks for one loop."""

    def __init__(self, cluster: ClusterClient, channel: JobChannel, seat: Participant, attention: FilePolling) -> None:
        """Nothing was seen yet."""
        self._cluster = cluster
        self._channel = channel
        self._seat = seat
        self._attention = attention
        self._listens_since: datetime | None = None
        self.report: DriverStatus | None = None
        """The newest, of whatever driver: Hadoop's local file system deletes a file before it replaces it."""
        self.trouble: str | None = None
        """Why the cluster does not answer, None if it does."""

    @property
    def has_listened(self) -> bool:
        """Whether the driver's reports could be read, and could be since then."""
        return self._listens_since is not None

    def lose(self) -> None:
        """The job directory can't be used: a driver that is silent now may have been heard by nobody."""
        self._listens_since = None

    async def listen(self, now: datetime) -> datetime | None:
        """Read the driver's report, if its turn has come.

        Returns:
            When it was read, None if the driver's silence can't be judged by that: who has just begun to listen, or could not
            read for a while, lets a driver that lives be heard first.
        """
        if not self._attention.reads:
            return None
        self.report = await self._channel.status() or self.report
        self._listens_since = self._listens_since or now
        return now if now - self._listens_since >= FIRST_LISTENING else None

    async def look(
        self, world: JobObservation, demand: SlotDemand, driver: Driver | None, max_age: timedelta
    ) -> JobObservation:
        """The world with what the cluster tells.

        Args:
            world: what is known without it.
            demand: slots that the job demands.
            driver: the job's, None without one.
            max_age: of what the cluster told another loop.
        """
        troubled, self.trouble = self.trouble, None
        look = await self._answer(self._seat.look(demand, max_age))
        seen = replace(world, submission=await self._submission(driver, None if look is None else look.cluster))
        self._tell_trouble(troubled)
        return seen if look is None else replace(seen, cluster=look.cluster, share=look.share)

    def _tell_trouble(self, before: str | None) -> None:
        """Say once why the cluster does not answer."""
        if self.trouble not in (None, before):
            log.info("%s", self.trouble)

    async def _submission(self, driver: Driver | None, cluster: ClusterSnapshot | None) -> SubmissionStatus | None:
        """What the cluster knows of the driver: of one that lives the poll tells, of another one has to ask."""
        if driver is None or driver.submission_id is None or (cluster is None and not self._attention.reads):
            return None
        living = None if cluster is None else cluster.drivers.get(driver.submission_id)
        if living is not None:
            return SubmissionStatus(state=living.state)
        return await self._answer(self._cluster.status(driver.submission_id))

    async def _answer(self, question: Awaitable[Answer]) -> Answer | None:
        """The cluster's answer, None if there is none: its servers fail one by one, too, and of these the first is told."""
        try:
            return await question
        except ClusterUnreachableError as error:
            self.trouble = self.trouble or f"the cluster does not answer: {error}"
            return None
