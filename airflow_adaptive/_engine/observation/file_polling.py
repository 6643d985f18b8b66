"""Decides in which cycles a loop reads the files of its job: in each cycle during a change, and at a limited rate while the job is idle."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from airflow_adaptive._core.scheduler.events import BatchCommitted, Event
from airflow_adaptive._core.scheduler.state import Executing, SchedulerState, WaitingForResources
from airflow_adaptive._engine.rate_limit import RateLimiter

FILE_POLLS_PER_SECOND = 100.0
"""Polls per second of the files of all idle jobs of a process. A poll is two small reads, about a millisecond of CPU."""


class FilePolling:
    """Decides in each cycle whether the loop reads the journal and the driver status.

    A job that changes its plan, or that ends, cannot wait. The loops of jobs that run as planned share a rate limiter. The
    shared poll of the cluster still reports in each cycle whether the driver and its executors exist.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        """Join the rate limiter.

        Args:
            limiter: rate limiter of the file polls of all loops of this process.
        """
        self.is_due = True
        """Whether the loop reads the files in this cycle."""
        self._member = limiter.join()
        self._is_idle = False

    def begin_cycle(self, interval: timedelta) -> None:
        """Decide for the cycle that begins now; `interval` is the poll interval of the job."""
        self.is_due = self._member.due(interval, urgent=not self._is_idle)

    def end_cycle(self, state: SchedulerState, events: Iterable[Event]) -> None:
        """Record the state of the job after a cycle, and the events of the cycle."""
        self._is_idle = _is_idle(state) and all(isinstance(event, BatchCommitted) for event in events)

    def close(self) -> None:
        """Leave the rate limiter."""
        self._member.unregister()


def _is_idle(state: SchedulerState) -> bool:
    """Return whether the scheduler expects nothing of the driver."""
    match state.current:
        case Executing(manager=manager):
            return manager.first_change is None
        case WaitingForResources():
            return state.driver is None
        case _:
            return False
