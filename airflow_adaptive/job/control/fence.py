"""Whether this driver may run a query: its epoch and nonce are the log's, and its lease has not run out.

A driver is fenced for good once the log names another epoch or nonce. It also fences itself when it could not read the
log for the lease timeout, and, while it runs a query, when it could not report for so long: whoever has seen no new
report of this driver for the lease knows that it runs no query, and may start a successor. Either lease counts from
before the log was asked, so that this driver's end of it is never later than the scheduler's; and reading the log again
does not bring back a lease that ran out (in a process that was frozen, say).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from airflow_adaptive.job.protocol.documents import Directive


class FencedError(Exception):
    """This driver may not run a query any more; the message says why."""


class Fence:
    """The right of one driver to run queries."""

    def __init__(self, *, epoch: int, nonce: str, lease_timeout_s: float, clock: Callable[[], float]) -> None:
        """Begin with a lease, which is no permission yet: only `admit` gives one.

        Args:
            epoch: of this driver.
            nonce: of this driver.
            lease_timeout_s: how long a reading of the log counts.
            clock: monotonic, seconds.
        """
        self._epoch = epoch
        self._nonce = nonce
        self._lease_timeout_s = lease_timeout_s
        self._clock = clock
        self._read_at = clock()
        self._reported_at = -math.inf

    def admit(self, directive: Directive, read_at: float) -> None:
        """Take a directive from the log.

        Args:
            directive: of the newest journal document.
            read_at: the clock before the reading began.

        Raises:
            FencedError: the directive is for another driver.
        """
        if (directive.epoch, directive.nonce) != (self._epoch, self._nonce):
            raise FencedError(
                f"the log is at epoch {directive.epoch}, nonce {directive.nonce!r}; "
                f"this driver has epoch {self._epoch}, nonce {self._nonce!r}"
            )
        self._read_at = read_at

    def renew(self) -> None:
        """A report was written after the newest admission: it renews the right to run a query."""
        self._reported_at = self._read_at

    def check(self, *, query_may_run: bool) -> None:
        """Make sure that the lease holds.

        Args:
            query_may_run: whether a query may be running now.

        Raises:
            FencedError: it has run out.
        """
        if self._overdue_s(self._read_at) >= 0:
            raise FencedError(f"for {self._lease_timeout_s:g} s (the lease) no journal document has named this driver")
        if query_may_run and self.overdue_s() >= 0:
            raise FencedError(f"for {self._lease_timeout_s:g} s (the lease) this driver has not reported")

    def overdue_s(self) -> float:
        """Seconds since no query may run any more; negative while one may."""
        return self._overdue_s(self._reported_at)

    def _overdue_s(self, since: float) -> float:
        return self._clock() - since - self._lease_timeout_s
