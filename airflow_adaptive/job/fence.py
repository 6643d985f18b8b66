"""Whether this driver may run a query: its epoch and nonce are the log's, and its lease has not run out.

A driver is fenced for good once the log names another epoch or nonce. It also fences itself when it could not read the
log for the lease timeout: from then on another driver may have been started. The lease counts from before the log was
asked, so that this driver's end of it is never later than the scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_adaptive.job.documents import Directive


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

    def admit(self, directive: Directive, read_at: float) -> None:
        """Renew the lease with a directive from the log.

        Args:
            directive: of the newest log document.
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

    def check(self) -> None:
        """Make sure that the lease holds.

        Raises:
            FencedError: it has run out.
        """
        if self.overdue_s() >= 0:
            raise FencedError(f"for {self._lease_timeout_s:g} s (the lease) no log document has named this driver")

    def overdue_s(self) -> float:
        """Seconds since the lease ran out; negative while it holds."""
        return self._clock() - self._read_at - self._lease_timeout_s
