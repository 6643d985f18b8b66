"""Ends the processes of a driver that does not stop its queries although its lease has expired.

The driver loop checks the lease itself, but it may hang in storage that neither responds nor fails, or in the code of
the script, and its process may be frozen while the JVM continues to run the queries. Therefore a process of its own,
the watchdog process, ends the driver at a limit that the driver loop extends with each renewal of the lease.
"""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys
from contextlib import suppress
from typing import Final

from airflow_adaptive.job.control import watchdog_process
from airflow_adaptive.job.control.interfaces import Watchdog

WATCHDOG_GRACE_S: Final = 5.0
"""Time in seconds after the expiry of the lease within which the driver loop has to stop the queries."""

KILL_TIMEOUT_S: Final = 5.0
"""Longest wait for the end of a watchdog process that was killed, in seconds."""

OUTPUT: Final = "stderr"
"""File of the driver's output, in the directory in which a worker starts the driver and its watchdog process."""


class LeaseWatchdog(Watchdog):
    """Starts the watchdog process of this process and its JVM, and sets its limit: the end of the lease and a time of grace."""

    def __init__(self, jvm: int, *, grace_s: float) -> None:
        self._jvm = jvm
        self._grace_s = grace_s
        self._input = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._limit = math.inf

    @property
    def is_enforcing(self) -> bool:
        return self._limit < math.inf

    def enforce(self, lease_end: float) -> None:
        limit = lease_end + self._grace_s
        try:
            self._send(limit)
        except (
            BrokenPipeError,
            BlockingIOError,
        ):  # The process was killed, or has read nothing for thousands of renewals.
            self.close()
            self._send(limit)
        self._limit = limit

    def close(self) -> None:
        self._limit = math.inf
        if self._process is not None:
            os.close(self._input)
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):  # A frozen control group delays the end of the process.
                self._process.wait(KILL_TIMEOUT_S)
            self._process = None

    def _send(self, limit: float) -> None:
        if self._process is None:
            self._process = self._start()
        os.write(self._input, f"{limit}\n".encode())

    def _start(self) -> subprocess.Popen[bytes]:
        source, self._input = os.pipe()
        os.set_blocking(self._input, False)
        try:
            program = [sys.executable, "-I", "-c", inspect.getsource(watchdog_process)]
            return subprocess.Popen(
                [*program, str(self._jvm), str(os.getpid()), OUTPUT],
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(source)
