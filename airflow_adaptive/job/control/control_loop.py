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

from airflow_adaptive.job.control.downtime import Downtime
from airflow_adaptive.job.control.executor_rescale import ExecutorRescale
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import ExecutorPool, Journal, StatusReporter, TaskBalancer, Workload
from airflow_adaptive.job.control.scheduler_link import SchedulerLink, SupersededDirectiveError
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
        journal: Journal,
        fence: Fence,
        workload: Workload,
        executors: ExecutorPool,
        balancer: TaskBalancer,
        reporter: StatusReporter,
        guard: Callable[[bool], None],
        settings: DriverSettings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        warn: Callable[[str], None],
    ) -> None:
        """Nothing is read or run yet.

        Args:
            identity: what all reports of this driver have in common.
            journal: where directives come from.
            fence: whether this driver may run.
            workload: the job's queries, or its batch.
            executors: of the application.
            balancer: of the queries' tasks.
            reporter: of the status.
            guard: told whether a query may be running from now on, for `watchdog.LeaseWatchdog`.
            settings: its waits.
            clock: monotonic, seconds.
            sleep: waits that many seconds.
            warn: for people who read the driver's output.
        """
        self._status = identity
        self._workload = workload
        self._executors = executors
        self._set_watchdog_guard = guard
        self._settings = settings
        self._sleep = sleep
        self._warn = warn
        self._downtime = Downtime(clock)
        self._rescale = ExecutorRescale(workload, executors, balancer, self._downtime, settings=settings, clock=clock)
        self._link = SchedulerLink(
            journal=journal,
            fence=fence,
            reporter=reporter,
            driver_status=self._driver_status,
            query_may_run=lambda: self._guarded or workload.plan is not None,
            poll_interval_s=settings.poll_interval_s,
            clock=clock,
            sleep=sleep,
            warn=warn,
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
            self._warn(f"fenced: {error}")
            self._workload.halt()
            self._set_guarded(False)
            self._link.report_fenced()
            return DriverState.FENCED
        except Exception as error:
            self._workload.halt()
            self._set(DriverState.FAILED, failure=report_exception(error))
            self._link.report()
            raise
        finally:
            self._rescale.stop_balancing()

    def _run(self) -> DriverState:
        while True:
            directive = self._link.poll()
            end = None if directive is None else self._reconcile(directive)
            if end is None and not self._executors.alive():
                failure = self._status.failure or CONTEXT_STOPPED
                end = self._set(DriverState.FAILED, failure=failure)
            self._link.report()
            if end is not None:
                return end
            self._sleep(self._settings.poll_interval_s)

    def _reconcile(self, directive: Directive) -> DriverState | None:
        """Go one step; the state to leave in, None to stay."""
        if directive.action is Action.RUN:
            return self._reconcile_run(directive)
        failure = self._end_queries()
        if self._workload.has_ended():
            return self._handle_end(directive)
        match directive.action:
            case Action.HOLD:  # a batch that failed meanwhile is replayed, and fails again if it must
                self._downtime.abandon()
                self._set(DriverState.HOLDING, directive.version)
                return None
            case Action.STOP:
                return self._set(DriverState.FAILED if failure else DriverState.STOPPED, directive.version, failure)
            case _:
                assert_never(directive.action)

    def _reconcile_run(self, directive: Directive) -> DriverState | None:
        if self._workload.has_ended():
            return self._handle_end(directive)
        directive = self._without_rejected(directive)
        plan = directive.plan
        if plan is None or directive.version == self._failed_version:
            return None
        self._executors.request_total(plan.executors)
        if self._workload.can_adopt(plan):
            self._rescale_executors(directive, plan)
        elif self._rescale.has_enough_executors(plan):
            self._deploy(directive, plan)
        else:
            self._rescale.stop_balancing()  # what was moved would be moved again
            self._set_in_progress()
        return None

    def _without_rejected(self, directive: Directive) -> Directive:
        """The directive; in place of one that was refused, to go on with what runs, as before it."""
        if directive.version > self._status.rejected_version:
            self._status = replace(self._status, rejected_version=0, rejection=None)
        elif directive.version == self._status.rejected_version and self._workload.plan is not None:
            return replace(directive, version=self._status.version, plan=self._workload.plan)
        return directive

    def _rescale_executors(self, directive: Directive, plan: DriverPlan) -> None:
        """The queries were built for this plan: only their executors may have to change (rescale tier 0)."""
        rescales = directive.version != self._status.version
        if rescales:
            self._set_in_progress()
        applied = False
        with suppress(SupersededDirectiveError):
            applied = self._rescale.apply(plan, self._link.interruptible_pause())
        if applied:
            self._rescale.adopt(plan, rescaled=rescales)
        if applied or not rescales:  # what a plan in force lacks later, the report shows
            self._set(DriverState.RUNNING, directive.version)
        self._rescale.advance(plan)

    def _handle_end(self, directive: Directive) -> DriverState | None:
        """The queries have ended by themselves."""
        failure = self._workload.failure()
        if failure is not None:
            self._end_queries()  # of several queries one has failed: the others end at their boundary
        self._workload.close()
        self._rescale.stop_balancing()
        self._set_guarded(False)
        if failure is None:
            return self._set(DriverState.FINISHED)
        self._fail(directive, failure)
        return None

    def _deploy(self, directive: Directive, plan: DriverPlan) -> None:
        """Put a plan in force that the queries have to be built for (rescale tiers 1 and 2)."""
        self._set_in_progress()
        self._link.report()
        if not self._link.holds_query_lease():
            return  # as long as the scheduler can't know of this driver, it may start another
        try:
            writers = self._link.run_while_polling(lambda: self._workload.build(plan))
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (the author's code)
            self._reject(directive, report_build_failure(error))
        else:
            if self._link.may_start(directive) and self._end_old_queries(directive):
                self._rescale.release_surplus(plan)
                self._start_queries(directive, plan, writers)

    def _reject(self, directive: Directive, failure: FailureReport) -> None:
        """The queries that run go on as before; without any the job has failed."""
        if self._workload.plan is None:
            self._fail(directive, failure)
            return
        self._warn(f"plan {directive.version} refused: {failure.error_class}: {failure.message}")
        self._status = replace(self._status, rejected_version=directive.version, rejection=failure)
        self._set(DriverState.RUNNING)

    def _end_old_queries(self, directive: Directive) -> bool:
        """End the queries that run; whether others may come in their place."""
        rescales = self._workload.plan is not None
        failure = self._end_queries()
        if failure is not None:
            self._fail(directive, failure)
        if failure is not None or self._workload.has_ended():
            return False
        if rescales:
            self._downtime.begin()
        return self._link.holds_query_lease()

    def _start_queries(self, directive: Directive, plan: DriverPlan, writers: Any) -> None:
        """Start what was built; its state is touched only while a query might run."""
        self._set_guarded(True)
        try:
            if not self._workload.is_prepared(writers, plan):  # a thread of its own costs more than that question
                self._link.run_while_polling(lambda: self._workload.prepare(writers, plan))
            if not self._link.may_start(directive):
                self._set_guarded(False)
                return
            self._workload.start(writers, plan)
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001  (Spark's analysis of the author's code)
            self._set_guarded(False)
            self._fail(directive, report_exception(error))
        else:
            self._rescale.advance(plan)
            self._set(DriverState.RUNNING, directive.version)

    def _end_queries(self) -> FailureReport | None:
        """End the query if one runs; why its last batch failed, None if it did not."""
        if self._workload.plan is None:
            return None
        self._rescale.stop_balancing()
        if not self._workload.end(self._settings.stop_timeout_s, self._link.pause):
            self._warn(
                f"no batch boundary within {self._settings.stop_timeout_s:g} s: a batch may be cut, to be replayed"
            )
        self._set_guarded(False)
        return self._workload.failure()

    def _fail(self, directive: Directive, failure: FailureReport) -> None:
        """The query failed under this directive: wait for one with another version."""
        self._warn(f"query failed: {failure.error_class}: {failure.message}")
        self._failed_version = directive.version
        self._downtime.abandon()
        self._set(DriverState.FAILED, directive.version, failure)

    def _set_guarded(self, on: bool) -> None:
        """Say whether a query may be running from now on: then the lease is enforced."""
        self._guarded = on
        self._set_watchdog_guard(on)

    def _set_in_progress(self) -> None:
        self._set(DriverState.RESCALING if self._status.version else DriverState.STARTING)

    def _set(self, state: DriverState, version: int | None = None, failure: FailureReport | None = None) -> DriverState:
        """What is reported from now on; without a version the one in force."""
        version = self._status.version if version is None else version
        self._status = replace(self._status, state=state, version=version, failure=failure)
        return state

    def _driver_status(self) -> DriverStatus:
        queries = self._workload.reports()  # first: progress tells the parallelism
        return replace(
            self._status,
            parallelism=self._workload.parallelism(),
            executors=self._executors.registered(),
            queries=queries,
            vertices_read=self._workload.vertices_read,
            downtime_ms=self._downtime.ms,
        )
