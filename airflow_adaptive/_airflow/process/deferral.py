"""What all triggers share: the minimum time that a task stays deferred, work that outlives its trigger, and the serialization."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from datetime import timedelta
from inspect import signature
from typing import Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_adaptive._airflow.store.storable import storable
from airflow_adaptive._engine.clock import SystemClock

Result = TypeVar("Result")

MIN_DEFERRAL = timedelta(seconds=8)
"""A shorter deferral may fail the task in Airflow 3.3 (apache/airflow#66374, #67287, #71580)."""

_tasks: set[asyncio.Task[None]] = set()
"""References to the work that outlives its trigger. The event loop itself keeps weak references only."""


async def with_minimum_deferral(work: Awaitable[Result]) -> Result:
    """Await the work, and return its result after `MIN_DEFERRAL` at the earliest. An exception of the work is raised at once."""
    clock = SystemClock()
    earliest = clock.now() + MIN_DEFERRAL
    result = await work
    await clock.sleep(max((earliest - clock.now()).total_seconds(), 0.0))
    return result


def finish_in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run a coroutine to its end in the triggerer, even if its trigger is canceled."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


class SerializedByAttributes:
    """Mixin for triggers whose attributes have the names of their constructor arguments."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the constructor arguments. Airflow stores the arguments in clear text."""
        arguments = {name: getattr(self, name) for name in signature(type(self)).parameters}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments


def event_of(payload: Any) -> TriggerEvent:
    """Return the event with this payload. Every database of Airflow can store the event."""
    return TriggerEvent(storable(payload))
