"""How long a task stays deferred at least."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from airflow_adaptive.runtime.clock import SystemClock

Result = TypeVar("Result")

SHORTEST_DEFERRAL = timedelta(seconds=8)
"""A deferral that is shorter may fail the task in Airflow 3.3 (apache/airflow#66374, #67287, #71580)."""


async def long_enough(work: Awaitable[Result]) -> Result:
    """The result of the work, once a trigger that began with it may fire; what the work raises is raised at once."""
    clock = SystemClock()
    soonest = clock.now() + SHORTEST_DEFERRAL
    result = await work
    await clock.sleep(max((soonest - clock.now()).total_seconds(), 0.0))
    return result
