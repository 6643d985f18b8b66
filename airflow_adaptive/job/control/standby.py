"""The standby: a driver that the journal does not name yet, and that prepares for the moment at which it does.

The scheduler submits a standby under an epoch of its own, beside the driver that runs (`_core.scheduler.standby`). The standby builds the queries, warms
up, and reports. It runs no query of the job before the newest journal document names its epoch, which is also the condition under which any driver may
run queries (`control.fence`). It ends when the journal names it neither as the driver nor as the standby.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import Directive, DriverState, DriverStatus, StandbyDirective
from airflow_adaptive._core.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.control.driver_loop import CONTEXT_STOPPED
from airflow_adaptive.job.control.driver_status import CurrentStatus, Downtime
from airflow_adaptive.job.control.fence import FencedError
from airflow_adaptive.job.control.interfaces import DirectoryError, DriverInterfaces, Operation, StatusReporter

POLL_INTERVAL_S: Final = 0.2
"""Longest interval between polls of the journal, in seconds: the job runs no query until the standby has read that it takes over."""

EXECUTOR_TIMEOUT_S: Final = 60.0
"""Time in seconds for which the standby waits for its first executor before it prepares without one."""


class StandbyLoop:
    """Waits with a driver until the journal names it, and prepares it meanwhile if it is a standby."""

    def __init__(
        self,
        identity: DriverStatus,
        interfaces: DriverInterfaces,
        settings: DriverSettings,
        reporter: StatusReporter,
    ) -> None:
        """Wait as the driver of `identity`. `reporter` writes the status of the standby, which is another file than that of the driver."""
        self._interfaces = interfaces
        self._settings = settings
        self._reporter = reporter
        self._status = CurrentStatus(identity, interfaces, Downtime(interfaces.clock))
        self._preparation: Operation | None = None
        self._readable = True
        self._started_at = self._read_at = interfaces.clock()

    def wait(self) -> DriverState | None:
        """Return None when the journal names this driver, and else the state in which it ends: FENCED, or FAILED if it could not be prepared."""
        try:
            while (directive := self._newest()) is None or not self._names_driver(directive):
                self._require_lease(directive)
                if directive is not None and directive.standby is not None and self._advance(directive.standby):
                    return DriverState.FAILED
                self._interfaces.sleep(min(POLL_INTERVAL_S, self._settings.poll_interval_s))
        except FencedError as error:
            self._interfaces.warn(f"fenced: {error}")
            return DriverState.FENCED
        return None

    def _newest(self) -> Directive | None:
        """Return the newest directive, None if the journal cannot be read now."""
        now = self._interfaces.clock()
        try:
            directive = self._interfaces.journal.newest()
        except DirectoryError as error:
            if self._readable:
                self._interfaces.warn(f"journal not read, will retry within the lease: {error}")
            self._readable = False
            return None
        self._readable = True
        if directive is not None:
            self._read_at = now
        return directive

    def _names_driver(self, directive: Directive) -> bool:
        return (directive.epoch, directive.nonce) == (self._settings.epoch, self._settings.nonce)

    def _require_lease(self, directive: Directive | None) -> None:
        """Raise `FencedError` if the journal names this driver no more, or could not be read for the lease."""
        lease, epoch = self._settings.lease_timeout_s, self._settings.epoch
        if directive is None:
            if self._interfaces.clock() - self._read_at >= lease:
                raise FencedError(f"for {lease:g} s (the lease) no journal document has named this driver")
        elif directive.standby is None or (directive.standby.epoch, directive.nonce) != (epoch, self._settings.nonce):
            raise FencedError(f"the journal is at epoch {directive.epoch}, and names no standby of epoch {epoch}")

    def _advance(self, directive: StandbyDirective) -> bool:
        """Prepare, and report. Returns whether the preparation has failed."""
        preparation = self._preparation
        if preparation is None and directive.plan is not None and self._has_executors():
            plan, has_executors = directive.plan, bool(self._interfaces.executors.registered())
            preparation = self._interfaces.start_operation(
                lambda: self._interfaces.workload.warm_up(plan, has_executors=has_executors)
            )
            self._preparation = preparation
        failure = self._interfaces.workload.running.failure()
        if preparation is not None and preparation.wait(0.0):
            if (error := preparation.exception()) is not None:
                failure = report_build_failure(error) if isinstance(error, Exception) else report_exception(error)
            else:
                self._status.fields = replace(self._status.fields, prepared=preparation.result())
            self._status.set(DriverState.PREPARED)
            self._hold(self._settings.standby_executors if directive.holds_executors else 0)
        if failure is None and not self._interfaces.executors.alive():
            failure = CONTEXT_STOPPED
        if failure is not None:
            self._interfaces.warn(f"the driver cannot be prepared: {failure.error_class}: {failure.message}")
            self._status.set(DriverState.FAILED, failure=failure)
        self._reporter.report(self._status.document())
        return failure is not None

    def _has_executors(self) -> bool:
        """Return whether the preparation may begin: with the first executor, or without one if none comes."""
        if not self._settings.standby_executors or self._interfaces.executors.registered():
            return True
        return self._interfaces.clock() - self._started_at >= EXECUTOR_TIMEOUT_S

    def _hold(self, executors: int) -> None:
        """Keep this number of executors. Executors are a request of the application, and the master forgets requests."""
        self._interfaces.executors.request_total(executors)
        self._interfaces.executors.release(executors, {})
