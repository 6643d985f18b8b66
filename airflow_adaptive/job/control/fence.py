"""The right of a driver to run queries: its epoch and nonce are those of the journal, and its lease has not expired.

A driver is fenced permanently as soon as the journal contains another epoch or nonce. A driver also fences itself if it
could not read the journal for the lease timeout, or, while a query runs, could not write its status for the lease
timeout. A scheduler that has seen no new status of this driver for the lease timeout therefore knows that the driver
runs no query, and may start a successor. Both leases begin before the read of the journal, so that they expire for the
driver no later than for the scheduler. A later read does not renew a lease that has expired, for example in a process
that was frozen.

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
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from airflow_adaptive._core.protocol.documents import Directive
from airflow_adaptive.job.control import watchdog_process
from airflow_adaptive.job.control.interfaces import Watchdog


def boot_time() -> float:
    """Return the time since the host was booted, in seconds, including the time for which the host was suspended.

    The scheduler, on another host, continues to count while the host of the driver is suspended. On Linux,
    `time.monotonic` does not.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class FencedError(Exception):
    """This driver must not run queries any more; the message gives the reason."""


class Fence:
    """The right of one driver to run queries."""

    def __init__(self, *, epoch: int, nonce: str, lease_timeout_s: float, clock: Callable[[], float]) -> None:
        """Begin with a read lease; `admit` and `renew` give the right to run queries. The clock is `boot_time`."""
        self._epoch = epoch
        self._nonce = nonce
        self._lease_timeout_s = lease_timeout_s
        self._clock = clock
        self._read_at = clock()
        self._reported_at = -math.inf

    def admit(self, directive: Directive, read_at: float) -> None:
        """Accept the directive of the newest document, whose read began at this time. Raises `FencedError` if it addresses another driver."""
        if (directive.epoch, directive.nonce) != (self._epoch, self._nonce):
            raise FencedError(
                f"the journal is at epoch {directive.epoch}, nonce {directive.nonce!r}; "
                f"this driver has epoch {self._epoch}, nonce {self._nonce!r}"
            )
        self._read_at = read_at

    def renew(self) -> None:
        """Renew the right to run queries, because the driver has written its status after the newest admission."""
        self._reported_at = self._read_at

    def check(self, *, query_may_run: bool) -> None:
        """Raise `FencedError` if the lease has expired."""
        if self._overdue_s(self._read_at) >= 0:
            raise FencedError(f"for {self._lease_timeout_s:g} s (the lease) no journal document has named this driver")
        if query_may_run and self.overdue_s() >= 0:
            raise FencedError(f"for {self._lease_timeout_s:g} s (the lease) this driver has not written its status")

    def revoke(self) -> None:
        """End the right to run queries now, because this driver has to stop. A lease that has expired stays expired."""
        ended = self._clock() - self._lease_timeout_s
        self._reported_at = min(self._reported_at, ended) if math.isfinite(self._reported_at) else ended
        self._read_at = self._reported_at  # a further status renews nothing

    def lease_end(self) -> float:
        """Return the time of the clock from which on queries must not run, unless the lease is renewed."""
        return self._reported_at + self._lease_timeout_s

    def overdue_s(self) -> float:
        """Return the number of seconds since queries must not run any more; negative while they may run."""
        return self._overdue_s(self._reported_at)

    def _overdue_s(self, since: float) -> float:
        return self._clock() - since - self._lease_timeout_s


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
