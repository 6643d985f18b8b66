"""Work that continues in the triggerer after the trigger that started the work has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

_tasks: set[asyncio.Task[None]] = set()
"""References to the running tasks. The event loop itself keeps weak references only."""


def finish_in_background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run a coroutine to its end, even if its caller is canceled."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
