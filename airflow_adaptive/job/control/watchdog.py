"""Ends the process if the control loop is too late to stop the queries of a driver whose lease has run out.

The control loop checks the lease itself, but it may hang: in a storage that neither answers nor fails, in the author's
own code. A query must not outlive the lease for that.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

EXIT_FENCED: Final = 3
"""Exit code of a driver that was fenced."""

CHECKS_PER_GRACE: Final = 4


class LeaseWatchdog(threading.Thread):
    """Looks at the lease from a thread of its own, while it is guarding."""

    def __init__(
        self, overdue_s: Callable[[], float], *, grace_s: float, end: Callable[[int], object] = os._exit
    ) -> None:
        """Prepare; `start` starts the thread.

        Args:
            overdue_s: seconds since the lease ran out.
            grace_s: how long the control loop may take to stop the queries by itself.
            end: ends the process, whatever its other threads do; the JVM that started it follows.
        """
        super().__init__(name="lease-watchdog", daemon=True)
        self._overdue_s = overdue_s
        self._grace_s = grace_s
        self._end = end
        self._guarding = threading.Event()
        self._closed = threading.Event()

    def guard(self, on: bool) -> None:
        """Say whether a query may be running: only then has the lease to be enforced."""
        if on:
            self._guarding.set()
        else:
            self._guarding.clear()

    def close(self) -> None:
        """Let the thread end."""
        self._closed.set()

    def run(self) -> None:
        """Look until closed."""
        while not self._closed.wait(self._grace_s / CHECKS_PER_GRACE):
            if self._overdue_s() > self._grace_s and self._guarding.is_set():
                log.warning("The lease has run out and the control loop hangs: exit")
                self._end(EXIT_FENCED)
                return
