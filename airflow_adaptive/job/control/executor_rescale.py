"""Rescale tier 0: adds and removes executors under running queries, and moves tasks accordingly.

Surplus executors are released while no batch runs. Therefore no task fails, and no shuffle file is lost that a stage
still has to read. Executors above the plan's number, but within its limit, continue to run.

Tasks that can run anywhere use new executors immediately; stateful tasks would stay where their state is. Therefore the
balancer spreads stateful tasks over executors that a plan has added, and away from released executors, regardless of
the load balance mode, but only when the new executors are warm. A JVM runs its first task of each kind slowly. One
batch waits for the first stateless task, the next batch lets the query catch up, and the batch after that waits for the
first stateful task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_adaptive._core.protocol.conf import DriverSettings
from airflow_adaptive._core.protocol.documents import TASKS, DriverPlan
from airflow_adaptive.job.control.driver_status import Downtime
from airflow_adaptive.job.control.interfaces import DriverInterfaces

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
