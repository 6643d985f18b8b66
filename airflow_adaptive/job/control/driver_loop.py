"""The driver loop: reads the newest directive, reconciles the queries with it, and writes the driver status.

The loop is level-triggered: each cycle compares the directive with the current state and takes one step towards the
directive. A directive that arrives during a step takes effect in the next cycle, and a cycle that cannot read the
journal is repeated.

    RUN   Request the executors. If the queries are built for the plan, they continue while executors are added or
          removed, and the version of the plan becomes active when its executors are registered (rescale tier 0).
          Otherwise, when the executors are registered: build new queries. If that fails, the running queries continue
          and the driver rejects the plan. Otherwise end the running queries at a batch boundary, release surplus
          executors, prepare the state (tier 2) and start the new queries (tier 1).
    HOLD  End the queries at a batch boundary; keep the session and its executors.
    STOP  End the queries at a batch boundary, write the status, and return.

Surplus executors are released while no batch runs. Therefore no task fails, and no shuffle file is lost that a stage
still has to read. Executors above the plan's number, but within its limit, continue to run.

Tasks that can run anywhere use new executors immediately; stateful tasks would stay where their state is. Therefore the
balancer spreads stateful tasks over executors that a plan has added, and away from released executors, regardless of
the load balance mode, but only when the new executors are warm. A JVM runs its first task of each kind slowly. One
batch waits for the first stateless task, the next batch lets the query catch up, and the batch after that waits for the
first stateful task.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from airflow_adaptive._core.failure_code import FailureCode
from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import (
    TASKS,
    Action,
    Directive,
    DriverPlan,
    DriverState,
    DriverStatus,
    FailureReport,
)
from airflow_adaptive._core.protocol.failures import report_build_failure, report_exception
from airflow_adaptive.job.control.driver_status import CurrentStatus, Downtime
from airflow_adaptive.job.control.fence import Fence, FencedError
from airflow_adaptive.job.control.interfaces import DriverInterfaces, MissingSlotsError, QueryStillRunsError, Watchdog
from airflow_adaptive.job.control.scheduler_link import SchedulerLink, SupersededDirectiveError

log = logging.getLogger(__name__)

EXIT_TIMEOUT_S: Final = 30.0
"""Time in seconds after which a released executor has exited: a worker kills it after ten seconds (`spark.deploy.ExecutorRunner`)."""

WARM_UP_TIMEOUT_S: Final = 10.0
"""Time in seconds after which new executors get stateful tasks even if they are not warm, because batches that are this
long are hardly affected by the first tasks of a JVM."""


class ExecutorRescale:
    """Adapts the executors of running queries to a plan."""

    def __init__(self, interfaces: DriverInterfaces, settings: DriverSettings, downtime: Downtime) -> None:
        self._workload = interfaces.workload
        self._executors = interfaces.executors
        self._balancer = interfaces.balancer
        self._clock = interfaces.clock
        self._settings = settings
        self._downtime = downtime
        self._blocked_s = 0.0
        self._balancing = False
        self._warm_up_deadline = 0.0
        self._exit_deadline = 0.0

    def has_enough_executors(self, plan: DriverPlan) -> bool:
        """Return whether all executors of the plan are registered."""
        return len(self._executors.registered()) >= plan.executors

    def release_surplus(self, plan: DriverPlan) -> None:
        """Release executors above the limit of the plan that run no task."""
        self._executors.release(plan.executor_limit, plan.remaining_per_worker)

    def apply(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        """Adapt the executors to the plan while the queries run. An exception of `pause` ends the attempt.

        Returns whether all executors of the plan are registered and surplus executors were released.
        """
        self._blocked_s = 0.0
        if len(self._executors.registered()) > plan.executor_limit and not self._release_between_batches(plan, pause):
            return False
        return self.has_enough_executors(plan)

    def adopt(self, plan: DriverPlan, *, rescaled: bool) -> None:
        """Make an applied plan active for the running queries. The downtime of a new plan is the time for which the queries were blocked."""
        previous = self._workload.running.plan
        if previous is not None and previous != plan:
            if plan.executors > previous.executors:
                self._balancing, self._warm_up_deadline = True, self._clock() + WARM_UP_TIMEOUT_S
            self._workload.running.adopt(plan)
        if rescaled:
            self._downtime.record(self._blocked_s)

    def advance(self, plan: DriverPlan) -> None:
        """Continue the work of a rescale while the queries run: measure the downtime, and spread tasks if necessary."""
        if self._downtime.is_measuring and self._workload.running.wait_for_first_trigger(
            self._settings.poll_interval_s
        ):
            self._downtime.end()
        if self._clock() < self._exit_deadline and self._executors.exiting():
            return
        run = self._workload.running.stateful_run() if self._balancing or plan.load_balance_mode == TASKS else None
        if run is None:
            self._balancer.restore()
            return
        executors = self._executors.registered()
        is_warm = self._clock() >= self._warm_up_deadline or self._executors.are_warm(executors)
        if is_warm and self._balancer.rebalance(executors, run):
            self._balancing = False

    def stop_balancing(self) -> None:
        """Stop balancing, because the queries end."""
        self._balancing = False
        self._balancer.restore()

    def _release_between_batches(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        def act() -> None:
            since = self._clock()
            self.release_surplus(plan)
            self._balancer.ignore_locality()
            self._balancing = True
            self._exit_deadline = self._clock() + EXIT_TIMEOUT_S
            self._blocked_s = self._clock() - since

        return self._workload.running.act_between_batches(self._settings.stop_timeout_s, pause, act)


EXIT_FAILED: Final = 1
"""Exit code of a driver in which nothing can run any more."""

EXIT_FENCED: Final = 3
"""Exit code of a fenced driver."""

CONTEXT_STOPPED: Final = FailureReport(
    error_class=FailureCode.SPARK_CONTEXT_STOPPED,
    message="the SparkContext was stopped: by the cluster manager, or by the script",
    causes=(FailureCode.SPARK_CONTEXT_STOPPED,),
)


def run_driver(
    identity: DriverStatus,
    interfaces: DriverInterfaces,
    settings: DriverSettings,
    *,
    watchdog: Watchdog,
    exit_process: Callable[[int, str], object],
) -> DriverState:
    """Run the driver loop of a process with its fence and its watchdog, and end the process if queries may still be running.

    See `DriverLoop.run`. `identity` has the fields that all statuses of this driver share. `exit_process` ends the processes of the driver
    immediately, with an exit code and a reason: if it is fenced, and if the driver loop fails while a query may still be running.
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


class DriverLoop:
    """Runs one driver from its first directive to its end."""

    def __init__(
        self,
        identity: DriverStatus,
        interfaces: DriverInterfaces,
        settings: DriverSettings,
        *,
        fence: Fence,
        enforce: Callable[[float], None],
    ) -> None:
        self._interfaces = interfaces
        self._settings = settings
        self._workload = interfaces.workload
        self._executors = interfaces.executors
        self._warn = interfaces.warn
        self._downtime = Downtime(interfaces.clock)
        self._status = CurrentStatus(identity, interfaces, self._downtime)
        self._rescale = ExecutorRescale(interfaces, settings, self._downtime)
        self._link = SchedulerLink(self._status, interfaces, settings, fence=fence, enforce=enforce)
        self._failed_version: int | None = None
        self._waiting_version: int | None = None
        """Version of a plan that has too few slots for the first start of the queries."""

    def run(self) -> DriverState:
        """Execute directives until the driver ends.

        Returns:
            STOPPED, FINISHED or FENCED; FAILED if nothing can run in this process any more. A fenced driver must exit
            immediately (`entry.driver.DriverProcess.exit`), because a long operation may continue in its thread.

        Raises:
            Exception: the driver loop itself failed; it has reported the failure, and stopped the queries unless the
                watchdog is still on.
        """
        try:
            return self._run()
        except FencedError as error:
            self._warn(f"fenced: {error}")
            self._link.revoke_lease()
            self._workload.halt()
            self._interfaces.reporter.report_fenced(self._status.document())
            return DriverState.FENCED
        except Exception as error:
            if self._workload.halt() and not self._link.is_operating:
                self._link.set_guarded(False)
            else:  # something may still be running, and has no lease any more
                self._link.revoke_lease()
            self._status.set(DriverState.FAILED, failure=report_exception(error))
            self._link.report()
            raise
        finally:
            self._rescale.stop_balancing()

    def _run(self) -> DriverState:
        while True:
            directive = self._link.poll()
            end = None if directive is None else self._reconcile(directive)
            if end is None and not self._executors.alive():
                failure = self._status.fields.failure or CONTEXT_STOPPED
                end = self._status.set(DriverState.FAILED, failure=failure)
            self._link.report()
            if end is not None:
                return end
            self._interfaces.sleep(self._settings.poll_interval_s)

    def _reconcile(self, directive: Directive) -> DriverState | None:
        """Take one step towards the directive. Returns the state in which the driver ends, or None to continue."""
        if directive.action is Action.RUN:
            return self._reconcile_run(directive)
        try:
            failure = self._end_queries(directive)
        except SupersededDirectiveError:  # The move has a time limit now.
            return None
        if self._workload.running.has_ended():
            return self._handle_end(directive)
        if directive.action is Action.HOLD:  # a batch that failed meanwhile is replayed later
            self._downtime.abandon()
            self._status.set(DriverState.HOLDING, directive.version)
            return None
        if self._status.fields.is_moving and self._status.fields.state is DriverState.FAILED:
            failure = self._status.fields.failure  # of a query, which the loop may not have read yet
        return self._status.set(DriverState.FAILED if failure else DriverState.STOPPED, directive.version, failure)

    def _reconcile_run(self, directive: Directive) -> DriverState | None:
        if self._workload.running.has_ended():
            return self._handle_end(directive)
        directive = self._without_rejected(directive)
        plan = directive.plan
        if plan is None or directive.version in (self._failed_version, self._waiting_version):
            return None
        self._executors.request_total(plan.executors)
        if self._workload.running.can_adopt(plan):
            self._rescale_executors(directive, plan)
        elif self._rescale.has_enough_executors(plan):
            self._deploy(directive, plan)
        else:
            self._rescale.stop_balancing()  # the next balancing would undo these moves
            self._status.set_in_progress()
        return None

    def _without_rejected(self, directive: Directive) -> Directive:
        """Return the directive, or, instead of a rejected one, the directive to continue with the running queries."""
        active = self._status.fields
        if directive.version > active.rejected_version:
            self._status.set_rejection(0, None)
        elif directive.version == active.rejected_version and self._workload.running.plan is not None:
            return replace(directive, version=active.version, plan=self._workload.running.plan)
        return directive

    def _rescale_executors(self, directive: Directive, plan: DriverPlan) -> None:
        """Change only the executors, because the queries are built for this plan (rescale tier 0)."""
        rescales = directive.version != self._status.fields.version
        if rescales:
            self._status.set_in_progress()
        applied = False
        with suppress(SupersededDirectiveError):
            applied = self._rescale.apply(plan, self._link.interruptible_pause())
        if applied:
            self._rescale.adopt(plan, rescaled=rescales)
        if applied or not rescales:  # an active plan stays active when it loses executors later
            self._status.set(DriverState.RUNNING, directive.version)
        self._rescale.advance(plan)

    def _handle_end(self, directive: Directive) -> DriverState | None:
        """Handle queries that have ended without a request."""
        failure = self._workload.running.failure()
        if failure is not None:
            self._end_queries(directive)  # one of several queries has failed: the others end at their boundary
        self._workload.running.close()
        self._rescale.stop_balancing()
        self._link.set_guarded(False)
        if failure is None:
            return self._status.set(DriverState.FINISHED)
        self._fail(directive, failure)
        return None

    def _deploy(self, directive: Directive, plan: DriverPlan) -> None:
        """Deploy a plan that requires new queries (rescale tiers 1 and 2)."""
        self._status.set_in_progress()
        # A report takes as long as the build, and another batch of running queries would begin meanwhile.
        if self._workload.running.plan is None or not self._link.holds_query_lease():
            self._link.report()
        if not self._link.holds_query_lease():
            return  # without a status of this driver the scheduler may start another driver
        try:
            writers = self._link.run_while_polling(lambda: self._workload.build(plan))
        except Exception as error:  # noqa: BLE001  (the author's code)
            self._raise_own(error)
            self._reject(directive, error)
        else:
            if self._link.may_start(directive) and self._end_old_queries(directive):
                self._rescale.release_surplus(plan)
                self._start_queries(directive, plan, writers)

    def _reject(self, directive: Directive, error: Exception) -> None:
        """Reject a plan: running queries continue; without running queries the job has failed, unless it waits for slots."""
        failure = report_build_failure(error)
        if self._workload.running.plan is None and not isinstance(error, MissingSlotsError):
            self._fail(directive, failure)
            return
        self._warn(f"plan {directive.version} rejected: {failure.error_class}: {failure.message}")
        self._status.set_rejection(directive.version, failure)
        if self._workload.running.plan is None:
            self._waiting_version = directive.version
        else:
            self._status.set(DriverState.RUNNING)

    def _end_old_queries(self, directive: Directive) -> bool:
        """End the running queries. Returns whether new queries may start."""
        rescales = self._workload.running.plan is not None
        failure = self._end_queries(directive)
        if failure is not None:
            self._fail(directive, failure)
        if failure is not None or self._workload.running.has_ended():
            return False
        if rescales:
            self._downtime.begin()
        return self._link.holds_query_lease()

    def _start_queries(self, directive: Directive, plan: DriverPlan, writers: Any) -> None:
        """Prepare the state and start the new queries. The lease is enforced from the first change of the state."""
        self._link.set_guarded(True)
        try:
            if not self._workload.is_prepared(writers, plan):  # cheaper than a thread
                self._link.run_while_polling(lambda: self._workload.prepare(writers, plan))
            if not self._link.may_start(directive):
                self._link.set_guarded(False)
                return
            self._workload.start(writers, plan)
        except Exception as error:  # noqa: BLE001  (Spark's analysis of the author's code)
            self._raise_own(error)
            self._link.set_guarded(False)
            self._fail(directive, report_exception(error))
        else:
            self._rescale.advance(plan)
            self._status.set(DriverState.RUNNING, directive.version)

    def _raise_own(self, error: Exception) -> None:
        """Raise an error of the driver loop itself: an operation that failed has ended."""
        if isinstance(error, FencedError | QueryStillRunsError) or self._link.is_operating:
            raise error

    def _end_queries(self, directive: Directive) -> FailureReport | None:
        """End the running queries. Returns why the last batch failed, or None.

        Those who end this driver also limit the time of its last batch, by killing its processes. Raises `SupersededDirectiveError` if the driver
        leaves its machine before they do, and the directive changes, for example because a user cancels the job.
        """
        if self._workload.running.plan is None:
            return None
        self._rescale.stop_balancing()
        is_moving = self._status.fields.is_moving
        timeout_s = math.inf if is_moving or directive.is_move else self._settings.stop_timeout_s
        pause = self._link.interruptible_pause() if directive.is_move and not is_moving else self._link.pause
        if not self._workload.running.end(timeout_s, pause):
            self._warn(
                f"no batch boundary within {self._settings.stop_timeout_s:g} s: a batch may be interrupted and replayed"
            )
        self._link.set_guarded(self._workload.running.plan is not None)  # a batch may not have ended
        return self._workload.running.failure()

    def _fail(self, directive: Directive, failure: FailureReport) -> None:
        """Report a failure under this directive, and wait for a directive with another version."""
        self._warn(f"query failed: {failure.error_class}: {failure.message}")
        self._failed_version = directive.version
        self._downtime.abandon()
        self._status.set(DriverState.FAILED, directive.version, failure)
