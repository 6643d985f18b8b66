"""Rescale tier 0: executors come and go under the running queries, and the tasks follow them.

What is there more than the plan holds goes while no batch runs. So no task fails, and no file of a shuffle is lost that a
stage has still to read. What is more than the plan runs on, and held, is kept.

Executors that came are used at once by tasks that can run anywhere; stateful ones would stay where their state is. So the
balancer spreads them over executors that a plan has added, and off those that were given back, whatever the plan says of
load balancing; but only when they are warm. A JVM is slow with its first task of each kind, so a batch waits for the first
one without state, the next one lets the query catch up, and the one after it waits for the first one with state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from airflow_adaptive.job.control.downtime import Downtime
from airflow_adaptive.job.control.interfaces import ExecutorPool, RunningWorkload, TaskBalancer
from airflow_adaptive.job.protocol.conf import DriverSettings
from airflow_adaptive.job.protocol.documents import TASKS, DriverPlan, ExecutorReport

EXIT_TIMEOUT_S: Final = 30.0
"""An executor that was given back has ended by then: a worker kills it after ten (`spark.deploy.ExecutorRunner`)."""

WARM_UP_TIMEOUT_S: Final = 10.0
"""Executors that came get tasks with state then at the latest: to long batches a JVM's first tasks are nothing."""


class ExecutorRescale:
    """Brings the executors of running queries to what a plan says."""

    def __init__(
        self,
        workload: RunningWorkload,
        executors: ExecutorPool,
        balancer: TaskBalancer,
        downtime: Downtime,
        *,
        settings: DriverSettings,
        clock: Callable[[], float],
    ) -> None:
        """Nothing is done yet.

        Args:
            workload: of the job.
            executors: of the application.
            balancer: of the queries' tasks.
            downtime: of the last rescale.
            settings: its waits.
            clock: monotonic, seconds.
        """
        self._workload = workload
        self._executors = executors
        self._balancer = balancer
        self._downtime = downtime
        self._settings = settings
        self._clock = clock
        self._blocked_s = 0.0
        self._balancing = False
        self._warm_up_deadline = 0.0
        self._exit_deadline = 0.0

    def has_enough_executors(self, plan: DriverPlan) -> bool:
        """Whether all executors that the plan runs on are there."""
        return len(self._executors.registered()) >= plan.executors

    def release_surplus(self, plan: DriverPlan) -> None:
        """Give back what the plan does not hold, and has no task."""
        self._executors.release(plan.executor_limit, plan.remaining_per_worker)

    def apply(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        """Come nearer to the plan while the queries run.

        Args:
            plan: that they were built for.
            pause: waits that many seconds; what it raises ends the attempt.

        Returns:
            Whether all executors of the plan are there, and those that are too many were given back.
        """
        self._blocked_s = 0.0
        if len(self._executors.registered()) > plan.executor_limit and not self._release_between_batches(plan, pause):
            return False
        return self.has_enough_executors(plan)

    def adopt(self, plan: DriverPlan, *, rescaled: bool) -> None:
        """Let the queries go on with a plan that was carried out.

        Args:
            plan: that they were built for.
            rescaled: whether it is another one than before: then its dead time is how long the queries were held for it.
        """
        before = self._workload.plan
        if before is not None and before != plan:
            if plan.executors > before.executors:
                self._balancing, self._warm_up_deadline = True, self._clock() + WARM_UP_TIMEOUT_S
            self._workload.adopt(plan)
        if rescaled:
            self._downtime.record(self._blocked_s)

    def advance(self, plan: DriverPlan) -> None:
        """What is to be done while the queries run: measure to the first trigger, and spread tasks if that is wanted."""
        if self._downtime.is_measuring and self._workload.wait_for_first_trigger(self._settings.poll_interval_s):
            self._downtime.end()
        if self._clock() < self._exit_deadline and self._executors.exiting():
            return
        run = self._workload.stateful_run() if self._balancing or plan.load_balance_mode == TASKS else None
        if run is None:
            self._balancer.restore()
            return
        executors = self._executors.registered()
        if self._are_warm(executors) and self._balancer.rebalance(executors, run):
            self._balancing = False

    def stop_balancing(self) -> None:
        """Spread nothing any more: the queries end, or will."""
        self._balancing = False
        self._balancer.restore()

    def _are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        return self._clock() >= self._warm_up_deadline or self._executors.are_warm(executors)

    def _release_between_batches(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        def act() -> None:
            since = self._clock()
            self.release_surplus(plan)
            self._balancer.ignore_locality()
            self._balancing = True
            self._exit_deadline = self._clock() + EXIT_TIMEOUT_S
            self._blocked_s = self._clock() - since

        return self._workload.act_between_batches(self._settings.stop_timeout_s, pause, act)
