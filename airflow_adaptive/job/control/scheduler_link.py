"""What ties a driver to its scheduler: it hears directives and is heard of, and runs queries only as long as that holds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.interfaces import DirectoryError, Journal, StatusReporter
from airflow_adaptive.job.protocol.documents import Directive, DriverStatus

Result = TypeVar("Result")


class SupersededDirectiveError(Exception):
    """Another directive has come than the one that is being obeyed."""


class SchedulerLink:
    """Reads the log and writes the status, between turns of the control loop and inside of long ones."""

    def __init__(
        self,
        *,
        journal: Journal,
        fence: Fence,
        reporter: StatusReporter,
        driver_status: Callable[[], DriverStatus],
        query_may_run: Callable[[], bool],
        poll_interval_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        warn: Callable[[str], None],
    ) -> None:
        """Nothing is read or written yet.

        Args:
            journal: where directives come from.
            fence: whether this driver may run.
            reporter: of the status.
            driver_status: gives the status of this moment.
            query_may_run: whether a query may be running now.
            poll_interval_s: between two looks at the log.
            clock: monotonic, seconds.
            sleep: waits that many seconds.
            warn: for people who read the driver's output.
        """
        self._journal = journal
        self._fence = fence
        self._reporter = reporter
        self._driver_status = driver_status
        self._querying = query_may_run
        self._poll_interval_s = poll_interval_s
        self._clock = clock
        self._sleep = sleep
        self._warn = warn
        self._polled_at = clock()
        self._readable = True
        self._newest: Directive | None = None

    def poll(self) -> Directive | None:
        """Read the log; None if there is nothing to obey now. Raises `FencedError`."""
        self._polled_at = self._clock()
        directive = None
        try:
            directive = self._journal.newest()
            self._readable = True
        except DirectoryError as error:
            if self._readable:
                self._warn(f"log not read, trying on within the lease: {error}")
            self._readable = False
        if directive is not None:
            self._fence.admit(directive, self._polled_at)
            self._newest = directive
        self._fence.check(query_may_run=self._querying())
        return directive

    def report(self) -> None:
        """Report, but not before the log has named this driver: the status may be another's."""
        if self._newest is not None and self._reporter.report(self._driver_status()):
            self._fence.renew()

    def report_fenced(self) -> None:
        """Report for the last time: this driver is fenced."""
        self._reporter.report_fenced(self._driver_status())

    def pause(self, seconds: float) -> None:
        """Wait inside of a turn, without becoming deaf or silent.

        Raises:
            FencedError: this driver must not run a query any more.
        """
        self._sleep(seconds)
        if self._clock() - self._polled_at >= self._poll_interval_s:
            self.poll()
            self.report()

    def interruptible_pause(self) -> Callable[[float], None]:
        """As `pause`, but raises `SupersededDirectiveError` too, once there is a newer directive than now: what waits can be given up."""
        obeyed = self._newest

        def pause(seconds: float) -> None:
            self.pause(seconds)
            if self._newest != obeyed:
                raise SupersededDirectiveError

        return pause

    def run_while_polling(self, act: Callable[[], Result]) -> Result:
        """Do what may outlast the lease, in a thread of its own with the Spark properties of this one.

        Raises:
            FencedError: this driver must not run a query any more; the act is left to itself.
            BaseException: what the act raises.
        """
        from pyspark import InheritableThread  # noqa: PLC0415  the control loop is also run without Spark

        done: Future[Result] = Future()

        def work() -> None:
            try:
                done.set_result(act())
            except BaseException as error:  # noqa: BLE001  (is raised where it is waited for)
                done.set_exception(error)

        InheritableThread(target=work, name="long-act", daemon=True).start()
        while wait([done], self._poll_interval_s).not_done:
            self.pause(0.0)
        if (error := done.exception()) is not None:
            raise error  # here, so that its traceback has no frame of the Future's that would be told as the script's
        return done.result()

    def holds_query_lease(self) -> bool:
        """Whether the scheduler knows that this driver may run a query: if it can't, it may start another."""
        return self._fence.overdue_s() < 0

    def may_start(self, directive: Directive) -> bool:
        """Look again, since time has passed: start nothing on an outdated word, nor unknown to the scheduler."""
        current = self.poll() == directive
        if current and not self.holds_query_lease():
            self.report()
            current = self.poll() == directive
        return current and self.holds_query_lease()
