"""The executors of a simulated driver, which its application requests from the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_adaptive._core.protocol.documents import Decommission, ExecutorLoad, ExecutorReport
from airflow_adaptive.job.control.interfaces import StatefulRun
from tests.lab.fleet.kernel.kernel import Kernel

if TYPE_CHECKING:
    from tests.lab.fleet.cluster.cluster import SimulatedCluster

REQUEST_INTERVAL_S = 10.0
"""Interval in seconds at which a request for executors is repeated (`executor_pool.REQUEST_INTERVAL_S`)."""

LOSS_S = 120.0
"""Longest time in seconds from the check that the executors of a plan have registered to the activation of the plan: the driver builds the
queries, and repartitions their state on a slow storage."""


class SimulatedExecutors:
    """The executors of one driver; see `interfaces.ExecutorPool`. An executor registers some time after the master has granted it."""

    def __init__(
        self,
        kernel: Kernel,
        cluster: SimulatedCluster,
        submission_id: str,
        registration_s: Callable[[], float],
    ) -> None:
        """Connect to the cluster.

        Args:
            kernel: the kernel.
            cluster: the cluster.
            submission_id: submission of the driver.
            registration_s: returns the time from the grant of an executor to its registration, in seconds.
        """
        submission = cluster.submissions[submission_id]
        self._cores = submission.executor_cores
        self._memory_mb = submission.executor_memory_mb
        self._kernel = kernel
        self._cluster = cluster
        self._submission_id = submission_id
        self._registration_s = registration_s
        self._registered_at: dict[str, float] = {}
        self._workers: Mapping[str, str] = {}
        self._released: set[str] = set()
        self._lost_at = -math.inf
        self._requested: tuple[int, float] = (0, 0.0)

    def register_application(self) -> str | None:
        """Request the executors of the start from the master; return the id of the application, None if the master does not answer."""
        if not self._cluster.is_connected(self._submission_id):
            return None
        return self._request(self._cluster.submissions[self._submission_id].executors)

    def alive(self) -> bool:
        """Return whether the SparkContext is running."""
        return True

    def registered(self) -> tuple[ExecutorReport, ...]:
        """Return the executors that accept tasks, oldest first."""
        self._update()
        return tuple(
            ExecutorReport(executor_id=name, cores=self._cores, worker=self._cluster.address_of(worker))
            for name, worker in self._workers.items()
            if self._registered_at[name] <= self._kernel.now
        )

    def slots(self) -> int:
        """Return the slots of the executors that accept tasks."""
        self._update()
        return self._cores * sum(self._registered_at[name] <= self._kernel.now for name in self._workers)

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        """Return True: executors need no tasks to become fast."""
        return True

    def load(self) -> ExecutorLoad | None:
        """Return None: the totals of simulated executors are unknown."""
        return None

    def exiting(self) -> Sequence[str]:
        """Return no ids: released executors exit immediately."""
        return ()

    def decommission(self) -> Decommission:
        """Return the default: no administrator takes executors."""
        return Decommission()

    def request_total(self, total: int) -> None:
        """Request a total number of executors from the master."""
        requested, at = self._requested
        is_due = requested != total or self._kernel.now - at >= REQUEST_INTERVAL_S
        if is_due and self._cluster.is_connected(self._submission_id):
            self._request(total)

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Release the youngest executors above `total`. Executors that start are not known to the driver yet."""
        if self._cluster.is_connected(self._submission_id):
            released = [executor.executor_id for executor in self.registered()[total:]]
            self._released.update(released)
            self._cluster.release_executors(self._submission_id, released)

    def use(self, total: int) -> None:
        """A plan with a number of executors becomes active. Its executors must have registered; some may have been lost since."""
        registered = len(self.registered())
        if registered < total and self._kernel.now - self._lost_at > LOSS_S:
            self._cluster.excesses.append(f"{self._submission_id} uses {total} executors and has {registered}")

    def _request(self, total: int) -> str:
        self._requested = (total, self._kernel.now)
        return self._cluster.set_executor_limit(self._submission_id, total, self._cores, self._memory_mb)

    def _update(self) -> None:
        """Notice new and lost executors. A driver that the master has lost keeps its executors."""
        if self._cluster.serves(self._submission_id):
            known, self._workers = self._workers, dict(self._cluster.executors_by_id(self._submission_id))
            if not self._released.issuperset(known.keys() - self._workers.keys()):
                self._lost_at = self._kernel.now
        for name in self._workers:
            if name not in self._registered_at:
                delay_s = self._registration_s() + self._cluster.registration_delay_s
                self._registered_at[name] = self._kernel.now + delay_s


class SimulatedBalancer:
    """A balancer that has nothing to do; see `interfaces.TaskBalancer`."""

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """Return True: the tasks are balanced."""
        return True

    def ignore_locality(self) -> None:
        """Do nothing."""

    def restore(self) -> None:
        """Do nothing."""
