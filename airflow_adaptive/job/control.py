"""The control loop: reads the newest directive, obeys it, reports.

Level-triggered: each turn compares what the directive wants with what is, and goes one step nearer. So a directive
that comes while another is being obeyed is simply the next one, and a turn that fails to read is a turn later.

    RUN   the query runs on the plan already: report its version, give surplus executors back, spread its tasks. Else:
          declare the executors; when they are there, end the query at a batch boundary, give surplus executors back,
          build and start it anew (rescale tier 1).
    HOLD  end the query at a batch boundary, keep session and executors.
    STOP  end the query at a batch boundary, report, leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, assert_never

from airflow_adaptive.job.conf import DriverSettings
from airflow_adaptive.job.directory import DirectoryError
from airflow_adaptive.job.documents import (
    TASKS,
    Action,
    Directive,
    DriverPlan,
    DriverState,
    FailureReport,
    Status,
)
from airflow_adaptive.job.failures import report_build_failure, report_exception
from airflow_adaptive.job.fence import Fence, FencedError
from airflow_adaptive.job.parts import ExecutorPool, Log, Query, StatusReporter, TaskBalancer
from airflow_adaptive.job.progress import DeadTime

CONTEXT_STOPPED: Final = FailureReport(
    error_class="SPARK_CONTEXT_STOPPED",
    message="the SparkContext was stopped: by the cluster manager, or by the script",
    causes=("SPARK_CONTEXT_STOPPED",),
)


class ControlLoop:
    """Runs one driver from its first directive to its end."""

    def __init__(
        self,
        identity: Status,
        *,
        log: Log,
        fence: Fence,
        query: Query,
        executors: ExecutorPool,
        balancer: TaskBalancer,
        reporter: StatusReporter,
        guard: Callable[[bool], None],
        settings: DriverSettings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        complain: Callable[[str], None],
    ) -> None:
        """Nothing is read or run yet.

        Args:
            identity: what all reports of this driver have in common.
            log: where directives come from.
            fence: whether this driver may run.
            query: of the job.
            executors: of the application.
            balancer: of the query's tasks.
            reporter: of the status.
            guard: told whether a query may be running from now on, for `watchdog.LeaseWatchdog`.
            settings: its waits.
            clock: monotonic, seconds.
            sleep: waits that many seconds.
            complain: for people who read the driver's output.
        """
        self._status = identity
        self._log = log
        self._fence = fence
        self._query = query
        self._executors = executors
        self._balancer = balancer
        self._reporter = reporter
        self._guard = guard
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._complain = complain
        self._dead_time = DeadTime(clock)
        self._looked_at = clock()
        self._readable = True
        self._admitted = False
        self._failed_version: int | None = None

    def run(self) -> DriverState:
        """Obey until the end.

        Returns:
            STOPPED, FINISHED or FENCED; FAILED if nothing can run in this process any more.

        Raises:
            Exception: the control loop itself failed; the query was stopped and the failure reported.
        """
        try:
            return self._run()
        except FencedError as error:
            self._complain(f"fenced: {error}")
            self._query.halt()
            self._guard(False)
            self._reporter.report_fenced(self._describe())
            return DriverState.FENCED
        except Exception as error:
            self._query.halt()
            self._set(DriverState.FAILED, failure=report_exception(error))
            self._report()
            raise
        finally:
            self._balancer.restore()

    def _pause(self, seconds: float) -> None:
        """Wait inside of a turn, without becoming deaf or silent.

        Raises:
            FencedError: this driver must not run a query any more.
        """
        self._sleep(seconds)
        if self._clock() - self._looked_at >= self._settings.poll_interval_s:
            self._look()
            self._report()

    def _run(self) -> DriverState:
        while True:
            directive = self._look()
            end = None if directive is None else self._obey(directive)
            if not self._executors.alive():
                failure = self._status.failure or CONTEXT_STOPPED
                end = self._set(DriverState.FAILED, failure=failure)
            self._report()
            if end is not None:
                return end
            self._sleep(self._settings.poll_interval_s)

    def _look(self) -> Directive | None:
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
            self._admitted = True
        self._fence.check(querying=self._query.plan is not None)
        return directive

    def _obey(self, directive: Directive) -> DriverState | None:
        """Go one step; the state to leave in, None to stay."""
        if directive.action is Action.RUN:
            return self._run_query(directive)
        failure = self._end_query()
        if self._query.ended():
            return self._take_end(directive)
        match directive.action:
            case Action.HOLD:  # a batch that failed meanwhile is replayed, and fails again if it must
                self._dead_time.abandon()
                self._set(DriverState.HOLDING, directive.version)
                return None
            case Action.STOP:
                return self._set(DriverState.FAILED if failure else DriverState.STOPPED, directive.version, failure)
            case _:
                assert_never(directive.action)

    def _run_query(self, directive: Directive) -> DriverState | None:
        plan = directive.plan
        if self._query.ended():
            return self._take_end(directive)
        if plan is None or directive.version == self._failed_version:
            return None
        self._executors.declare(plan.executors)
        if self._query.runs_on(plan):
            self._executors.release(plan.held, plan.keep)
            self._keep_running(plan)
            self._set(DriverState.RUNNING, directive.version)
        elif len(self._executors.registered()) >= plan.executors:
            self._deploy(directive, plan)
        else:
            self._balancer.restore()  # what it moved would be moved again
            self._set(DriverState.RESCALING if self._status.version else DriverState.STARTING)
        return None

    def _keep_running(self, plan: DriverPlan) -> None:
        """What is to be done while the query runs on the plan."""
        if self._dead_time.runs and self._query.triggered(self._settings.poll_interval_s):
            self._dead_time.end()
        run = self._query.stateful_run() if plan.load_balance == TASKS else None
        if run is None:
            self._balancer.restore()
        else:
            self._balancer.follow(self._executors.registered(), run)

    def _take_end(self, directive: Directive) -> DriverState | None:
        """The query has ended by itself."""
        failure = self._query.failure()
        self._query.close()
        self._balancer.restore()
        self._guard(False)
        if failure is None:
            return self._set(DriverState.FINISHED)
        self._fail(directive, failure)
        return None

    def _deploy(self, directive: Directive, plan: DriverPlan) -> None:
        """Put a plan in force (rescale tier 1)."""
        self._set(DriverState.RESCALING if self._status.version else DriverState.STARTING)
        self._report()
        if self._fence.overdue_s() >= 0:
            return  # as long as the scheduler can't know of this driver, it may start another
        rescales = self._query.plan is not None
        failure = self._end_query()
        if failure is not None:
            self._fail(directive, failure)
        if failure is not None or self._query.ended():
            return
        if rescales:
            self._dead_time.begin()
        self._executors.release(plan.held, plan.keep)
        try:
            writer = self._query.build(plan)
        except Exception as error:  # noqa: BLE001  (the author's code)
            self._fail(directive, report_build_failure(error))
            return
        try:
            if not self._may_start(directive):
                return
            self._guard(True)
            self._query.start(writer, plan)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (Spark's analysis of the author's code)
            self._guard(False)
            self._fail(directive, report_exception(error))
        else:
            self._keep_running(plan)
            self._set(DriverState.RUNNING, directive.version)

    def _may_start(self, directive: Directive) -> bool:
        """Look again, since building took its time: start nothing on an outdated word, nor unknown to the scheduler."""
        current = self._look() == directive
        if current and self._fence.overdue_s() >= 0:
            self._report()
            current = self._look() == directive
        return current and self._fence.overdue_s() < 0

    def _end_query(self) -> FailureReport | None:
        """End the query if one runs; why its last batch failed, None if it did not."""
        if self._query.plan is None:
            return None
        self._balancer.restore()
        if not self._query.end(self._settings.stop_timeout_s, self._pause):
            self._complain(
                f"no batch boundary within {self._settings.stop_timeout_s:g} s: a batch may be cut, to be replayed"
            )
        self._guard(False)
        return self._query.failure()

    def _fail(self, directive: Directive, failure: FailureReport) -> None:
        """The query failed under this directive: wait for one with another version."""
        self._complain(f"query failed: {failure.error_class}: {failure.message}")
        self._failed_version = directive.version
        self._dead_time.abandon()
        self._set(DriverState.FAILED, directive.version, failure)

    def _set(self, state: DriverState, version: int | None = None, failure: FailureReport | None = None) -> DriverState:
        """What is reported from now on; without a version the one in force."""
        version = self._status.version if version is None else version
        self._status = replace(self._status, state=state, version=version, failure=failure)
        return state

    def _report(self) -> None:
        """Report, but not before the log has named this driver: the status may be another's."""
        if self._admitted and self._reporter.report(self._describe()):
            self._fence.reported()

    def _describe(self) -> Status:
        queries = self._query.reports()  # first: progress tells the parallelism
        return replace(
            self._status,
            parallelism=self._query.parallelism(),
            executors=self._executors.registered(),
            queries=queries,
            downtime_ms=self._dead_time.ms,
        )
