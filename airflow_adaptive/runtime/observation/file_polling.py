"""How closely a loop watches the files of its job: always while something is under way, in turn while all is calm."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from airflow_adaptive.runtime.rate_limit import RateLimiter
from airflow_adaptive.scheduler.events import BatchCommitted, Event
from airflow_adaptive.scheduler.state import Executing, SchedulerState, WaitingForResources

FILE_LOOKS = 100.0
"""Looks per second at the files of all calm jobs of a process. A look is two small reads, about a millisecond of CPU."""


class FilePolling:
    """Decides turn by turn whether the log and the driver's report are read.

    What can't wait is a job on its way to another plan, or to its end. A job that runs as planned is looked at in turn with the
    others; whether its driver and its executors are there shows in the shared poll at once.
    """

    def __init__(self, budget: RateLimiter) -> None:
        """Take a place in the budget."""
        self.reads = True
        """Whether files are read in this turn."""
        self._turn = budget.join()
        self._calm = False

    def begin(self, now: datetime, every: timedelta) -> None:
        """A turn begins."""
        self.reads = self._turn.due(now, every, urgent=not self._calm)

    def settle(self, state: SchedulerState, seen: Iterable[Event]) -> None:
        """What was seen has led to this state."""
        self._calm = _is_calm(state) and all(isinstance(event, BatchCommitted) for event in seen)

    def leave(self) -> None:
        """Give the place up."""
        self._turn.leave()


def _is_calm(state: SchedulerState) -> bool:
    """Whether nothing is awaited of the driver."""
    match state.current:
        case Executing(manager=manager):
            return manager.first_change is None
        case WaitingForResources():
            return state.driver is None
        case _:
            return False
