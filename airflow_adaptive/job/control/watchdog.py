"""Ends the process if the control loop does not stop the queries of a driver whose lease has expired.

The control loop checks the lease itself, but it may hang in storage that neither responds nor fails, or in the code of
the script. A query must not run longer than the lease in these cases either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

EXIT_FENCED: Final = 3
"""Exit code of a fenced driver."""

CHECKS_PER_GRACE: Final = 4


class LeaseWatchdog(threading.Thread):
    """Checks the lease in a thread of its own while a query may run."""

    def __init__(self, overdue_s: Callable[[], float], *, grace_s: float, end: Callable[[int, str], object]) -> None:
        """Create the thread; `start` starts it.

        Args:
            overdue_s: returns the number of seconds since the lease expired.
            grace_s: time in seconds within which the control loop has to stop the queries itself.
            end: ends the process and its JVM, regardless of their other threads (`driver_process.DriverProcess.exit`).
        """
        super().__init__(name="lease-watchdog", daemon=True)
        self._overdue_s = overdue_s
        self._grace_s = grace_s
        self._end = end
        self._guarding = threading.Event()
        self._closed = threading.Event()

    @property
    def is_guarding(self) -> bool:
        """Whether the lease is enforced, because a query may be running."""
        return self._guarding.is_set()

    def guard(self, on: bool) -> None:
        """Enforce the lease from now on, or stop enforcing it. The lease matters only while a query may run."""
        if on:
            self._guarding.set()
        else:
            self._guarding.clear()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def run(self) -> None:
        """Check the lease until `close` is called."""
        while not self._closed.wait(self._grace_s / CHECKS_PER_GRACE):
            if self._overdue_s() > self._grace_s and self._guarding.is_set():
                self._end(EXIT_FENCED, "the lease has expired and the control loop does not respond")
                return
