"""The control loop: reads the newest directive, obeys it, reports.

Level-triggered: each turn compares what the directive wants with what is, and goes one step nearer. So a directive
that comes while another is being obeyed is simply the next one, and a turn that fails to read is a turn later.

    RUN   declare the executors. The queries were built for the plan: they run on while executors come and go, and once
          the plan's are there its version is in force (rescale tier 0). Else, when the executors are there: let the
          queries be built anew; if that fails, those that run go on, and the plan is refused. End them at one batch
          boundary, give surplus executors back, see to their state (tier 2), start the new ones (tier 1).
    HOLD  end the queries at a batch boundary, keep session and executors.
    STOP  end the queries at a batch boundary, report, leave.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, assert_never

from airflow_adaptive.job.control.dead_time import DeadTime
from airflow_adaptive.job.control.executor_rescale import ExecutorRescale
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import ExecutorPool, Log, Query, StatusReporter, TaskBalancer
from airflow_adaptive.job.control.scheduler_link import OutdatedError, SchedulerLink
from airflow_adaptive.job.protocol.conf import DriverSettings
from airflow_adaptive.job.protocol.documents import (
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    FailureReport,
)
from airflow_adaptive.job.protocol.failures import report_build_failure, report_exception

CONTEXT_STOPPED: Final = FailureReport(
    error_class="SPARK_CONTEXT_STOPPED",
    message="the SparkContext was stopped: by the cluster manager, or by the script",
    causes=("SPARK_CONTEXT_STOPPED",),
)


class ControlLoop:
    """Runs one driver from its first directive to its end."""

    def __init__(
        self,
        identity: DriverStatus,
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
            query: the job's queries, or its batch.
            executors: of the application.
            balancer: of the queries' tasks.
            reporter: of the status.
            guard: told whether a query may be running from now on, for `watchdog.LeaseWatchdog`.
            settings: its waits.
            clock: monotonic, seconds.
            sleep: waits that many seconds.
            complain: for people who read the driver's output.
        """
        self._status = identity
        self._query = query
        self._executors = executors
        self._tell_watchdog = guard
        self._settings = settings
        self._sleep = sleep
        self._complain = complain
        self._dead_time = DeadTime(clock)
        self._rescale = ExecutorRescale(query, executors, balancer, self._dead_time, settings=settings, clock=clock)
        self._contact = SchedulerLink(
            log=log,
            fence=fence,
            reporter=reporter,
            describe=self._describe,
            querying=lambda: self._guarded or query.plan is not None,
            poll_interval_s=settings.poll_interval_s,
            clock=clock,
            sleep=sleep,
            complain=complain,
        )
        self._guarded = False
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
            self._contact.part()
            return DriverState.FENCED
        except Exception as error:
            self._query.halt()
            self._set(DriverState.FAILED, failure=report_exception(error))
            self._contact.report()
            raise
        finally:
            self._rescale.leave_tasks()

    def _run(self) -> DriverState:
        while True:
            directive = self._contact.look()
            end = None if directive is None else self._obey(directive)
            if end is None and not self._executors.alive():
                failure = self._status.failure or CONTEXT_STOPPED
                end = self._set(DriverState.FAILED, failure=failure)
            self._contact.report()
            if end is not None:
                return end
            self._sleep(self._settings.poll_interval_s)

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
        if self._query.ended():
            return self._take_end(directive)
        directive = self._unless_refused(directive)
        plan = directive.plan
        if plan is None or directive.version == self._failed_version:
            return None
        self._executors.declare(plan.executors)
        if self._query.runs_on(plan):
            self._keep_running(directive, plan)
        elif self._rescale.has_enough(plan):
            self._deploy(directive, plan)
        else:
            self._rescale.leave_tasks()  # what was moved would be moved again
            self._set_under_way()
        return None

    def _unless_refused(self, directive: Directive) -> Directive:
        """The directive; in place of one that was refused, to go on with what runs, as before it."""
        if directive.version > self._status.rejected_version:
            self._status = replace(self._status, rejected_version=0, rejection=None)
        elif directive.version == self._status.rejected_version and self._query.plan is not None:
            return replace(directive, version=self._status.version, plan=self._query.plan)
        return directive

    def _keep_running(self, directive: Directive, plan: DriverPlan) -> None:
        """The queries were built for this plan: only their executors may have to change (rescale tier 0)."""
        rescales = directive.version != self._status.version
        if rescales:
            self._set_under_way()
        carried_out = False
        with suppress(OutdatedError):
            carried_out = self._rescale.carry_out(plan, self._contact.pauses())
        if carried_out:
            self._rescale.adopt(plan, rescaled=rescales)
        if carried_out or not rescales:  # what a plan in force lacks later, the report shows
            self._set(DriverState.RUNNING, directive.version)
        self._rescale.follow(plan)

    def _take_end(self, directive: Directive) -> DriverState | None:
        """The queries have ended by themselves."""
        failure = self._query.failure()
        if failure is not None:
            self._end_query()  # of several queries one has failed: the others end at their boundary
        self._query.close()
        self._rescale.leave_tasks()
        self._guard(False)
        if failure is None:
            return self._set(DriverState.FINISHED)
        self._fail(directive, failure)
        return None

    def _deploy(self, directive: Directive, plan: DriverPlan) -> None:
        """Put a plan in force that the queries have to be built for (rescale tiers 1 and 2)."""
        self._set_under_way()
        self._contact.report()
        if not self._contact.is_known():
            return  # as long as the scheduler can't know of this driver, it may start another
        try:
            writers = self._contact.keep_during(lambda: self._query.build(plan))
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (the author's code)
            self._refuse(directive, report_build_failure(error))
        else:
            if self._contact.may_start(directive) and self._make_way(directive):
                self._rescale.give_back(plan)
                self._start(directive, plan, writers)

    def _refuse(self, directive: Directive, failure: FailureReport) -> None:
        """The queries that run go on as before; without any the job has failed."""
        if self._query.plan is None:
            self._fail(directive, failure)
            return
        self._complain(f"plan {directive.version} refused: {failure.error_class}: {failure.message}")
        self._status = replace(self._status, rejected_version=directive.version, rejection=failure)
        self._set(DriverState.RUNNING)

    def _make_way(self, directive: Directive) -> bool:
        """End the queries that run; whether others may come in their place."""
        rescales = self._query.plan is not None
        failure = self._end_query()
        if failure is not None:
            self._fail(directive, failure)
        if failure is not None or self._query.ended():
            return False
        if rescales:
            self._dead_time.begin()
        return self._contact.is_known()

    def _start(self, directive: Directive, plan: DriverPlan, writers: Any) -> None:
        """Start what was built; its state is touched only while a query might run."""
        self._guard(True)
        try:
            if not self._query.is_prepared(writers, plan):  # a thread of its own costs more than that question
                self._contact.keep_during(lambda: self._query.prepare(writers, plan))
            if not self._contact.may_start(directive):
                self._guard(False)
                return
            self._query.start(writers, plan)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (Spark's analysis of the author's code)
            self._guard(False)
            self._fail(directive, report_exception(error))
        else:
            self._rescale.follow(plan)
            self._set(DriverState.RUNNING, directive.version)

    def _end_query(self) -> FailureReport | None:
        """End the query if one runs; why its last batch failed, None if it did not."""
        if self._query.plan is None:
            return None
        self._rescale.leave_tasks()
        if not self._query.end(self._settings.stop_timeout_s, self._contact.pause):
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

    def _guard(self, on: bool) -> None:
        """Say whether a query may be running from now on: then the lease is enforced."""
        self._guarded = on
        self._tell_watchdog(on)

    def _set_under_way(self) -> None:
        self._set(DriverState.RESCALING if self._status.version else DriverState.STARTING)

    def _set(self, state: DriverState, version: int | None = None, failure: FailureReport | None = None) -> DriverState:
        """What is reported from now on; without a version the one in force."""
        version = self._status.version if version is None else version
        self._status = replace(self._status, state=state, version=version, failure=failure)
        return state

    def _describe(self) -> DriverStatus:
        queries = self._query.reports()  # first: progress tells the parallelism
        return replace(
            self._status,
            parallelism=self._query.parallelism(),
            executors=self._executors.registered(),
            queries=queries,
            vertices_read=self._query.vertices_read,
            downtime_ms=self._dead_time.ms,
        )
