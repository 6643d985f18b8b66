"""The link between a driver and its scheduler: reads directives, writes the driver status, and enforces the lease."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar, cast

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import (
    Action,
    Directive,
    DocumentError,
    JournalDocument,
    NewerFormatError,
    decode_document,
)
from airflow_adaptive.job.control.driver_status import CurrentStatus
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import (
    DirectiveSource,
    DirectoryError,
    DriverInterfaces,
    JournalFiles,
    Operation,
)

LISTING_INTERVAL_S: Final = 10.0
"""Interval between listings of the journal, in seconds. The reader polls the next document number more often, but a
compaction may have deleted that document before the reader saw it."""


class JournalReader(DirectiveSource):
    """Follows the journal to its newest valid document.

    A loop that observes the job writes to the journal regularly. If no new document appears for `orphan_timeout_s`, no
    process may be left that could stop the driver; for example, the task ended while no triggerer was running. The
    driver then stops.
    """

    def __init__(
        self,
        files: JournalFiles,
        *,
        job: str,
        clock: Callable[[], float],
        report: Callable[[str], None],
        orphan_timeout_s: float = math.inf,
    ) -> None:
        """Read the documents of a job, and ignore others. `report` is called once for each of them, and when the orphan timeout has expired."""
        self._files = files
        self._job = job
        self._clock = clock
        self._report = report
        self._orphan_timeout_s = orphan_timeout_s
        self._newest_since = (0, clock())
        self._reported: set[int] = set()
        self._newest: JournalDocument | None = None
        self._listed_at: float | None = None

    def newest(self) -> Directive | None:
        """See `interfaces.DirectiveSource`. Raises `FencedError` if a newer version of airflow-adaptive wrote a document, which may name another driver."""
        now = self._clock()
        if self._newest is None or self._listed_at is None or now - self._listed_at >= LISTING_INTERVAL_S:
            self._newest = self._from_listing()
            self._listed_at = self._clock()
        else:
            self._advance()
        return None if self._newest is None else self._unless_orphaned(self._newest)

    def _unless_orphaned(self, newest: JournalDocument) -> Directive:
        """Return the directive of the newest document, or STOP after the orphan timeout."""
        number, since = self._newest_since
        if newest.number != number:
            self._newest_since = (newest.number, self._clock())
        elif self._clock() - since > self._orphan_timeout_s:
            self._ignore(number, f"no new document for {self._orphan_timeout_s:g} s (orphan timeout): stopping")
            return replace(newest.directive, action=Action.STOP, standby=None)
        return newest.directive

    def _from_listing(self) -> JournalDocument | None:
        """Return the newest valid document of the listing, or the known one if the listing lags.

        The result is older only if the known document is gone, because the job directory was deleted and created again.
        """
        known = self._newest
        if known is not None and self._read(known.number) != known:
            known = None
        listed = sorted(self._files.journal_numbers(), reverse=True)
        documents = (self._read(number) for number in listed if known is None or number > known.number)
        return next((document for document in documents if document is not None), known)

    def _advance(self) -> None:
        """Read on from the newest document, past invalid ones. A document that is incomplete now may become valid."""
        number = self._newest.number if self._newest is not None else 0
        while (data := self._files.read_journal(number := number + 1)) is not None:
            self._newest = self._decode(number, data) or self._newest

    def _read(self, number: int) -> JournalDocument | None:
        return self._decode(number, self._files.read_journal(number))

    def _decode(self, number: int, data: bytes | None) -> JournalDocument | None:
        if data is None:
            return None
        try:
            document = decode_document(JournalDocument, data)
        except NewerFormatError as error:
            raise FencedError(f"journal document {number}: {error}") from error
        except DocumentError as error:
            self._ignore(number, str(error))
            return None
        if (document.job, document.number) != (self._job, number):
            self._ignore(number, f"its content is number {document.number!r} of job {document.job!r}")
            return None
        return document

    def _ignore(self, number: int, reason: str) -> None:
        if number not in self._reported:
            self._reported.add(number)
            self._report(f"journal document {number} ignored: {reason}")


Result = TypeVar("Result")


class SupersededDirectiveError(Exception):
    """A newer directive has superseded the directive that the driver executes."""


class SchedulerLink:
    """Reads the journal and writes the driver status, between cycles of the driver loop and during long operations."""

    def __init__(
        self,
        status: CurrentStatus,
        interfaces: DriverInterfaces,
        settings: DriverSettings,
        *,
        fence: Fence,
        enforce: Callable[[float], None],
    ) -> None:
        self._status = status
        self._interfaces = interfaces
        self._poll_interval_s = settings.poll_interval_s
        self._fence = fence
        self._enforce = enforce
        self._guarded = False
        self._polled_at = interfaces.clock()
        self._readable = True
        self._newest: Directive | None = None
        self._operation: Operation | None = None

    def set_guarded(self, on: bool) -> None:
        """Enforce the lease from now on, because a query may be running, or stop enforcing it."""
        self._guarded = on
        self._enforce(self._fence.lease_end() if on else math.inf)

    def poll(self) -> Directive | None:
        """Read the journal. Returns None if there is no directive to execute now. Raises `FencedError`."""
        self._polled_at = self._interfaces.clock()
        directive = None
        try:
            directive = self._interfaces.journal.newest()
            self._readable = True
        except DirectoryError as error:
            if self._readable:
                self._interfaces.warn(f"journal not read, will retry within the lease: {error}")
            self._readable = False
        if directive is not None:
            self._fence.admit(directive, self._polled_at)
            self._newest = directive = self._unless_terminated(directive)
        self._fence.check(query_may_run=self._guarded or self._interfaces.workload.running.plan is not None)
        return directive

    def _unless_terminated(self, directive: Directive) -> Directive:
        """Return the directive, or STOP in its place if others end this driver."""
        if not self._interfaces.termination.is_requested():
            return directive
        # A driver that stops for another reason has not moved: the scheduler itself may end it because it does not stop in time.
        if directive.is_move or directive.action is not Action.STOP:
            self._status.set_moving()
        return replace(directive, action=Action.STOP)

    def report(self) -> None:
        """Write the driver status, but not before the journal has named this driver: the file may belong to another one."""
        if self._newest is not None and self._interfaces.reporter.report(self._status.document()):
            self._fence.renew()
            self.set_guarded(self._guarded)

    def revoke_lease(self) -> None:
        """End the lease, because this driver has to stop. From now on the watchdog limits the life of its processes."""
        self._fence.revoke()
        self.set_guarded(True)

    @property
    def is_operating(self) -> bool:
        """Whether a long operation has not ended yet; see `run_while_polling`."""
        return self._operation is not None and not self._operation.wait(0.0)

    def pause(self, seconds: float) -> None:
        """Wait within a cycle while polling the journal and writing the status. Raises `FencedError`."""
        self._interfaces.sleep(seconds)
        if self._interfaces.clock() - self._polled_at >= self._poll_interval_s:
            self.poll()
            self.report()

    def interruptible_pause(self) -> Callable[[float], None]:
        """Return a function like `pause` that raises `SupersededDirectiveError` when the directive changes."""
        current = self._newest

        def pause(seconds: float) -> None:
            self.pause(seconds)
            if self._newest != current:
                raise SupersededDirectiveError

        return pause

    def run_while_polling(self, act: Callable[[], Result]) -> Result:
        """Run an operation that may take longer than the lease, in a thread with the Spark properties of this thread.

        Raises:
            FencedError: this driver must not run queries any more; the operation ends with the process.
            BaseException: the exception of the operation.
        """
        self._operation = operation = self._interfaces.start_operation(act)
        while not operation.wait(self._poll_interval_s):
            self.pause(0.0)
        if (error := operation.exception()) is not None:
            raise error  # not by `Future.result`, whose frames a failure report would attribute to the script
        return cast("Result", operation.result())

    def holds_query_lease(self) -> bool:
        """Return whether the scheduler knows that this driver may run queries. Otherwise it may start another driver."""
        return self._fence.overdue_s() < 0

    def may_start(self, directive: Directive) -> bool:
        """Poll again, and return whether the directive is unchanged and the query lease is valid."""
        current = self.poll() == directive
        if current and not self.holds_query_lease():
            self.report()
            current = self.poll() == directive
        return current and self.holds_query_lease()
