"""What ties a driver to its scheduler: it hears directives and is heard of, and runs queries only as long as that holds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from airflow_adaptive.job.control.fence import Fence
from airflow_adaptive.job.control.interfaces import DirectoryError, Log, StatusReporter
from airflow_adaptive.job.protocol.documents import Directive, DriverStatus

Result = TypeVar("Result")


class OutdatedError(Exception):
    """Another directive has come than the one that is being obeyed."""


class SchedulerLink:
    """Reads the log and writes the status, between turns of the control loop and inside of long ones."""

    def __init__(
        self,
        *,
        log: Log,
        fence: Fence,
        reporter: StatusReporter,
        describe: Callable[[], DriverStatus],
        querying: Callable[[], bool],
        poll_interval_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        complain: Callable[[str], None],
    ) -> None:
        """Nothing is read or written yet.

        Args:
            log: where directives come from.
            fence: whether this driver may run.
            reporter: of the status.
            describe: gives the status of this moment.
            querying: whether a query may be running now.
            poll_interval_s: between two looks at the log.
            clock: monotonic, seconds.
            sleep: waits that many seconds.
            complain: for people who read the driver's output.
        """
        self._log = log
        self._fence = fence
        self._reporter = reporter
        self._describe = describe
        self._querying = querying
        self._poll_interval_s = poll_interval_s
        self._clock = clock
        self._sleep = sleep
        self._complain = complain
        self._looked_at = clock()
        self._readable = True
        self._newest: Directive | None = None

    def look(self) -> Directive | None:
        """Read the log; None if there is nothing to obey now. Raises `FencedError`."""
        self._looked_at = self._clock()
        directive = None
        try:
            directive = self._log.newest()
            self._readable = True
        except DirectoryError as error:
            if self._readable:
                self._complain(f"log not read, trying on within the lease: {error}")
            self._readable = False
        if directive is not None:
            self._fence.admit(directive, self._looked_at)
            self._newest = directive
        self._fence.check(querying=self._querying())
        return directive

    def report(self) -> None:
        """Report, but not before the log has named this driver: the status may be another's."""
        if self._newest is not None and self._reporter.report(self._describe()):
            self._fence.reported()

    def part(self) -> None:
        """Report for the last time: this driver is fenced."""
        self._reporter.report_fenced(self._describe())

    def pause(self, seconds: float) -> None:
        """Wait inside of a turn, without becoming deaf or silent.

        Raises:
            FencedError: this driver must not run a query any more.
        """
        self._sleep(seconds)
        if self._clock() - self._looked_at >= self._poll_interval_s:
            self.look()
            self.report()

    def pauses(self) -> Callable[[float], None]:
        """As `pause`, but raises `OutdatedError` too, once there is a newer directive than now: what waits can be given up."""
        obeyed = self._newest

        def pause(seconds: float) -> None:
            self.pause(seconds)
            if self._newest != obeyed:
                raise OutdatedError

        return pause

    def keep_during(self, act: Callable[[], Result]) -> Result:
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

    def is_known(self) -> bool:
        """Whether the scheduler knows that this driver may run a query: if it can't, it may start another."""
        return self._fence.overdue_s() < 0

    def may_start(self, directive: Directive) -> bool:
        """Look again, since time has passed: start nothing on an outdated word, nor unknown to the scheduler."""
        current = self.look() == directive
        if current and not self.is_known():
            self.report()
            current = self.look() == directive
        return current and self.is_known()
