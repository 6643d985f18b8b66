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

from airflow_adaptive.job.control.dead_time import DeadTime
from airflow_adaptive.job.control.interfaces import ExecutorPool, Run, TaskBalancer
from airflow_adaptive.job.protocol.conf import DriverSettings
from airflow_adaptive.job.protocol.documents import TASKS, DriverPlan, ExecutorReport

LEAVE_S: Final = 30.0
"""An executor that was given back has ended by then: a worker kills it after ten (`spark.deploy.ExecutorRunner`)."""

WARM_UP_S: Final = 10.0
"""Executors that came get tasks with state then at the latest: to long batches a JVM's first tasks are nothing."""


class ExecutorRescale:
    """Brings the executors of running queries to what a plan says."""

    def __init__(
        self,
        query: Run,
        executors: ExecutorPool,
        balancer: TaskBalancer,
        dead_time: DeadTime,
        *,
        settings: DriverSettings,
        clock: Callable[[], float],
    ) -> None:
        """Nothing is done yet.

        Args:
            query: of the job.
            executors: of the application.
            balancer: of the queries' tasks.
            dead_time: of the last rescale.
            settings: its waits.
            clock: monotonic, seconds.
        """
        self._query = query
        self._executors = executors
        self._balancer = balancer
        self._dead_time = dead_time
        self._settings = settings
        self._clock = clock
        self._held_s = 0.0
        self._spreads = False
        self._warm_at = 0.0
        self._leave_until = 0.0

    def has_enough(self, plan: DriverPlan) -> bool:
        """Whether all executors that the plan runs on are there."""
        return len(self._executors.registered()) >= plan.executors

    def give_back(self, plan: DriverPlan) -> None:
        """Give back what the plan does not hold, and has no task."""
        self._executors.release(plan.executor_limit, plan.remaining_per_worker)

    def carry_out(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        """Come nearer to the plan while the queries run.

        Args:
            plan: that they were built for.
            pause: waits that many seconds; what it raises ends the attempt.

        Returns:
            Whether all executors of the plan are there, and those that are too many were given back.
        """
        self._held_s = 0.0
        if len(self._executors.registered()) > plan.executor_limit and not self._give_back_between(plan, pause):
            return False
        return self.has_enough(plan)

    def adopt(self, plan: DriverPlan, *, rescaled: bool) -> None:
        """Let the queries go on with a plan that was carried out.

        Args:
            plan: that they were built for.
            rescaled: whether it is another one than before: then its dead time is how long the queries were held for it.
        """
        before = self._query.plan
        if before is not None and before != plan:
            if plan.executors > before.executors:
                self._spreads, self._warm_at = True, self._clock() + WARM_UP_S
            self._query.adopt(plan)
        if rescaled:
            self._dead_time.was(self._held_s)

    def follow(self, plan: DriverPlan) -> None:
        """What is to be done while the queries run: measure to the first trigger, and spread tasks if that is wanted."""
        if self._dead_time.runs and self._query.triggered(self._settings.poll_interval_s):
            self._dead_time.end()
        if self._clock() < self._leave_until and self._executors.leaving():
            return
        run = self._query.stateful_run() if self._spreads or plan.load_balance_mode == TASKS else None
        if run is None:
            self._balancer.restore()
            return
        executors = self._executors.registered()
        if self._are_warm(executors) and self._balancer.follow(executors, run):
            self._spreads = False

    def leave_tasks(self) -> None:
        """Spread nothing any more: the queries end, or will."""
        self._spreads = False
        self._balancer.restore()

    def _are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        return self._clock() >= self._warm_at or self._executors.are_warm(executors)

    def _give_back_between(self, plan: DriverPlan, pause: Callable[[float], None]) -> bool:
        def act() -> None:
            since = self._clock()
            self.give_back(plan)
            self._balancer.let_go()
            self._spreads = True
            self._leave_until = self._clock() + LEAVE_S
            self._held_s = self._clock() - since

        return self._query.between(self._settings.stop_timeout_s, pause, act)
