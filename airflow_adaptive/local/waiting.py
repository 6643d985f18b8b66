"""Wait for a condition with a deadline: what tests and launchers do instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")

POLL_INTERVAL_S = 0.1


def wait_until(
    condition: Callable[[], Result | None], timeout_s: float, what: str, interval_s: float = POLL_INTERVAL_S
) -> Result:
    """Ask `condition` until its answer is true, and return that answer.

    Args:
        condition: a false answer means "not yet"; an exception ends the wait.
        timeout_s: seconds until the wait is given up; the condition is asked at least once.
        what: what is waited for, for the error message.
        interval_s: seconds between two questions.

    Raises:
        TimeoutError: the condition did not come true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(interval_s)
    return result


async def wait_until_async(
    condition: Callable[[], Awaitable[Result | None]], timeout_s: float, what: str, interval_s: float = POLL_INTERVAL_S
) -> Result:
    """`wait_until` for a coroutine function as condition; other tasks run between two questions.

    Raises:
        TimeoutError: the condition did not come true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (result := await condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(interval_s)
    return result
