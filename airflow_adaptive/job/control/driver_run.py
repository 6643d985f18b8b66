"""Runs the driver loop of a process with its fence and its watchdog, and ends the process if queries may still be running."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final, Protocol

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import DriverState, DriverStatus
from airflow_adaptive.job.control.driver_loop import DriverLoop
from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.interfaces import DriverInterfaces

log = logging.getLogger(__name__)

EXIT_FAILED: Final = 1
"""Exit code of a driver in which nothing can run any more."""

EXIT_FENCED: Final = 3
"""Exit code of a fenced driver."""


class Watchdog(Protocol):
    """Ends the processes of a driver whose lease has expired; see `watchdog.LeaseWatchdog`."""

    @property
    def is_enforcing(self) -> bool:
        """Whether the lease is enforced, because a query may be running."""
        ...

    def enforce(self, lease_end: float) -> None:
        """Enforce a lease until the next call, or no lease if it ends never."""
        ...

    def close(self) -> None:
        """Enforce no lease any more."""
        ...


def run_driver(
    identity: DriverStatus,
    interfaces: DriverInterfaces,
    settings: DriverSettings,
    *,
    watchdog: Watchdog,
    exit_process: Callable[[int, str], object],
) -> DriverState:
    """Execute the scheduler's directives until the driver ends.

    Args:
        identity: fields that all statuses of this driver share.
        interfaces: components of the driver.
        settings: settings of the driver.
        watchdog: watchdog of the processes of the driver.
        exit_process: ends the processes of the driver immediately, with an exit code and a reason.

    Returns:
        See `DriverLoop.run`. A fenced driver does not return: its processes end.

    Raises:
        Exception: the driver loop itself failed; it has stopped the queries and reported the failure. If a query may
            still be running, the processes end instead.
    """
    fence = Fence(
        epoch=settings.epoch, nonce=settings.nonce, lease_timeout_s=settings.lease_timeout_s, clock=interfaces.clock
    )
    watchdog.enforce(math.inf)  # start the watchdog process before a query may run
    try:
        end = DriverLoop(identity, interfaces, settings, fence=fence, enforce=watchdog.enforce).run()
    except Exception:
        if watchdog.is_enforcing:  # a query, or a long operation, may still be running
            log.exception("the driver loop failed")
            exit_process(EXIT_FAILED, "the queries may still be running")
        raise
    if end is DriverState.FENCED:
        exit_process(EXIT_FENCED, "this driver is fenced")
    watchdog.close()
    return end
