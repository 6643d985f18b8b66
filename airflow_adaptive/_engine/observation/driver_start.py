"""The start of a driver and of its executors: reports why they wait, and ends a driver that cannot start, or cannot get an executor."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.ports import (
    Clock,
    ClusterClient,
    ClusterUnreachableError,
    SubmissionState,
    SubmissionStatus,
)
from airflow_adaptive._core.protocol.failures import redact, shortened
from airflow_adaptive._core.scheduler.events import DriverEnded, Event
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure
from airflow_adaptive._core.scheduler.timeline import Reason, ReasonCode

log = logging.getLogger(__name__)


MESSAGE_CHARACTERS = 1000

MAX_GRACE = timedelta(seconds=15)
"""Longest time for which a driver is unable to start before it is killed: what is missing may be created a moment after the driver."""

OBSERVED = (SubmissionState.SUBMITTED, SubmissionState.RUNNING)


class DriverStart:
    """Observes the start of each driver of a job.

    The cluster manager alone proves the end of a driver: a driver that cannot start is killed, and its end is observed like any other end.
    """

    def __init__(self, cluster: ClusterClient, clock: Clock, lease: timedelta) -> None:
        self._cluster = cluster
        self._clock = clock
        self._grace = min(MAX_GRACE, lease / 2)
        self._driver: str | None = None
        self._reported: set[str] = set()
        """Reasons of the driver that are reported: the reasons of a failed pull alternate."""
        self._stuck: tuple[SubmissionState, float] | None = None
        """State in which the driver or its executors cannot start, and since when. The reasons of a failed pull alternate, also with unknown ones."""
        self._error: tuple[str, str] | None = None
        """Why the driver was killed, or ended by itself: class and message of the failure. None without a known cause."""

    async def observe(self, driver: str | None, submission: SubmissionStatus | None) -> Reason | None:
        """Kill a driver that cannot start. Return why the driver or an executor waits; None without a reason, or if the reason is reported."""
        if driver is None or submission is None:
            return None
        if driver != self._driver:
            self._driver, self._reported, self._stuck, self._error = driver, set(), None, None
        if submission.state.over and not submission.can_start and self._error is None:
            self._error = FailureCode.DRIVER_REFUSED, redact(submission.message)[:MESSAGE_CHARACTERS]
        if submission.state not in OBSERVED:
            return None
        is_waiting = submission.state is SubmissionState.SUBMITTED
        if not submission.message:
            self._stuck = None if is_waiting else self._stuck
            return None
        message = shortened(redact(submission.message), MESSAGE_CHARACTERS)
        if not submission.can_start and self._error is None and self._is_stuck(submission.state):
            await self._kill(driver, message)
        return self._reason(f"the driver waits: {message}" if is_waiting else message)

    def explain(self, event: Event, driver: str | None) -> Event:
        """Return the event; the end of a driver that could not start gets the cause of the wait."""
        if self._error is None or driver != self._driver or not isinstance(event, DriverEnded):
            return event
        error_class, message = self._error
        causes = (event.failure.error_class, *event.failure.causes)
        return replace(event, failure=Failure(error_class=error_class, message=message, causes=causes))

    def _is_stuck(self, state: SubmissionState) -> bool:
        """Return whether the driver or its executors have been unable to start for the grace period."""
        if self._stuck is None or self._stuck[0] is not state:
            self._stuck = state, self._clock.elapsed
        return self._clock.elapsed - self._stuck[1] >= self._grace.total_seconds()

    async def _kill(self, driver: str, message: str) -> None:
        try:
            await self._cluster.kill(driver)
            self._error = FailureCode.DRIVER_NOT_STARTED, message
        except ClusterUnreachableError as error:
            log.warning("Driver %s cannot start, and cannot be killed now: %s", driver, error)

    def _reason(self, text: str) -> Reason | None:
        if text in self._reported:
            return None
        self._reported.add(text)
        return Reason(ReasonCode.SLOTS_PENDING, text)
