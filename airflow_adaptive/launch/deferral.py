"""The minimum time that a task stays deferred."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from airflow_adaptive.runtime.clock import SystemClock

Result = TypeVar("Result")

MIN_DEFERRAL = timedelta(seconds=8)
"""A shorter deferral may fail the task in Airflow 3.3 (apache/airflow#66374, #67287, #71580)."""


async def with_minimum_deferral(work: Awaitable[Result]) -> Result:
    """Await the work, and return its result after `MIN_DEFERRAL` at the earliest. An exception of the work is raised at once."""
    clock = SystemClock()
    earliest = clock.now() + MIN_DEFERRAL
    result = await work
    await clock.sleep(max((earliest - clock.now()).total_seconds(), 0.0))
    return result
