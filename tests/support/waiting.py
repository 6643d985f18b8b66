"""Waits in coroutines for a condition with a timeout, instead of a fixed sleep, and repeats something while a test waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from airflow_adaptive.local.waiting import POLL_INTERVAL_S

Result = TypeVar("Result")


async def wait_until_async(
    condition: Callable[[], Awaitable[Result | None]], timeout_s: float, what: str, interval_s: float = POLL_INTERVAL_S
) -> Result:
    """Do the same as `local.waiting.wait_until` with a coroutine function as condition. Other tasks run between two evaluations.

    Raises:
        TimeoutError: the condition is still false after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while not (result := await condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        await asyncio.sleep(interval_s)
    return result


@contextmanager
def repeated(act: Callable[[], object], interval_s: float) -> Iterator[None]:
    """Call a function in a thread during the block, again and again, at first after the interval."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.wait(interval_s):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
