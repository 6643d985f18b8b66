"""Waits for a condition with a timeout, and the error of the embedded cluster. Tests and launchers use these functions instead of a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar


class LocalClusterError(RuntimeError):
    """The embedded cluster cannot do what was requested. The message names the fix."""


Result = TypeVar("Result")

POLL_INTERVAL_S = 0.1


def wait_until(
    condition: Callable[[], Result | None], timeout_s: float, what: str, interval_s: float = POLL_INTERVAL_S
) -> Result:
    """Evaluate `condition` repeatedly until the result is true, and return the result.

    Args:
        condition: function whose false result means "not yet". An exception ends the wait.
        timeout_s: timeout in seconds. The condition is evaluated at least once.
        what: description of the awaited condition for the error message.
        interval_s: time between two evaluations, in seconds.

    Raises:
        TimeoutError: the condition is still false after the timeout.
    """
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(interval_s)
    return result
