"""The workload of a simulated driver: one query with an `interfaces.Workload`, over the model of its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from airflow_adaptive._core.protocol.documents import DriverPlan, FailureReport, PreparedQuery, QueryReport
from airflow_adaptive.job.control.interfaces import StatefulRun
from tests.lab.fleet.cluster.checkpoint import SimulatedCheckpoint
from tests.lab.fleet.cluster.executors import SimulatedExecutors
from tests.lab.fleet.cluster.host import DriverHost
from tests.lab.fleet.cluster.job_model import JobModel
from tests.lab.fleet.cluster.query import QueryRun
from tests.lab.fleet.kernel.kernel import Action, Kernel

Result = TypeVar("Result")

CHECK_INTERVAL_S = 1.0
"""Longest wait for a query between two polls of the journal, in seconds."""

HALT_TIMEOUT_S = 10.0
"""Time in seconds for which an immediate stop waits for the thread of a query (`job_queries.HALT_TIMEOUT_MS`)."""


class SimulatedOperation(Generic[Result]):
    """A long operation in a thread of the current process; see `interfaces.Operation`."""

    def __init__(self, kernel: Kernel, act: Callable[[], Result]) -> None:
        """Start the operation."""
        self._kernel = kernel
        self._act = act
        self._has_ended = False
        self._results: list[Result] = []
        self._error: Exception | None = None
        self._observers: list[Action] = []
        kernel.start_thread(self._run)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the operation up to the timeout, and return whether the operation has ended."""

        def plan(wake_up: Action) -> None:
            self._observers.append(wake_up)
            self._kernel.after(timeout_s, wake_up)

        if not self._has_ended and timeout_s > 0:
            self._kernel.block(plan)
        return self._has_ended

    def exception(self) -> Exception | None:
        """Return the exception of the operation, or None."""
        return self._error

    def result(self) -> Result:
        """Return the result of the operation."""
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._act())
        except Exception as error:  # noqa: BLE001  (raised by the waiting thread)
            self._error = error
        self._has_ended = True
        for wake_up in self._observers:
            wake_up()


class SimulatedWorkload:
    """The query of a job in one driver; see `interfaces.Workload`.

    Attributes:
        plan: active plan, None without a query.
        vertices_read: vertices whose parallelism the build function has read, None before its first call.
        gangs: empty, because the query is not in Real-Time Mode.
    """

    def __init__(
        self,
        kernel: Kernel,
        model: JobModel,
        processes: DriverHost,
        checkpoint: SimulatedCheckpoint,
        executors: SimulatedExecutors,
    ) -> None:
        """Create a workload that has no query.

        Args:
            kernel: the kernel.
            model: source, sink and faults of the job.
            processes: processes of the driver.
            checkpoint: checkpoint of the query.
            executors: executors of the driver.
        """
        self.plan: DriverPlan | None = None
        self.vertices_read: tuple[str, ...] | None = None
        self.gangs: Mapping[str, int] = {}
        self._kernel = kernel
        self._model = model
        self._processes = processes
        self._checkpoint = checkpoint
        self._executors = executors
        self._run: QueryRun | None = None
        self._previous = QueryReport(name=model.job, active=False)

    @property
    def is_query_active(self) -> bool:
        """Whether the thread of a query lives and can continue now."""
        jvm = self._processes.jvm
        return self._run is not None and self._run.is_active and jvm.is_alive and not jvm.is_frozen

    @property
    def running(self) -> SimulatedWorkload:
        """The workload itself: its query."""
        return self

    # ---- build and start --------------------------------------------------------------------------------------------

    def build(self, plan: DriverPlan) -> DriverPlan:
        """Call the build function. Raises the exceptions of the function."""
        self._kernel.sleep(self._model.shape.build_s)
        if self._model.build_errors:
            raise self._model.build_errors[0]
        self.vertices_read = tuple(sorted(plan.parallelism)) if self._model.shape.reads_parallelism else ()
        return plan

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        """Take as long as a first batch."""
        self._in_jvm(lambda: self._kernel.sleep(self._model.shape.repartition_s))
        return ()

    def is_prepared(self, writers: DriverPlan, plan: DriverPlan) -> bool:
        """Return whether the state has the number of partitions of the plan."""
        return not plan.repartition or self._model.state_partitions == plan.partitions_of(self._model.job)

    def prepare(self, writers: DriverPlan, plan: DriverPlan) -> None:
        """Repartition the state."""
        self._in_jvm(lambda: self._kernel.sleep(self._model.shape.repartition_s))
        self._model.state_partitions = plan.partitions_of(self._model.job)

    def start(self, writers: DriverPlan, plan: DriverPlan) -> None:
        """Start the query."""
        self._previous = self._report()
        self._run = QueryRun(self._kernel, self._model, self._checkpoint, self._executors.slots)
        self._executors.use(plan.executors)
        self._in_jvm(self._run.start)
        self.plan = plan
        self._model.record(f"{self._model.job}: query started with parallelism {dict(plan.parallelism)}")

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Return whether the query runs and a plan needs no restart of the query."""
        return self.plan is not None and self.plan.query_version == plan.query_version

    def adopt(self, plan: DriverPlan) -> None:
        """Make a plan active without a restart."""
        self._executors.use(plan.executors)
        self.plan = plan
        self._model.record(f"{self._model.job}: query continues with parallelism {dict(plan.parallelism)}")

    # ---- batch boundaries and the end -------------------------------------------------------------------------------

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Call `act` while no batch runs. Return False if no such moment occurs in time."""
        run = self._current
        self._in_jvm(run.hold)
        try:
            if not self._wait(run, lambda: run.is_between_batches or not run.is_active, timeout_s, pause):
                return False
            act()
        finally:
            run.release()
        return True

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End the query at a batch boundary. Return False if a batch had to be interrupted."""
        run = self._current
        self._in_jvm(run.end)
        at_boundary = self._wait(run, lambda: not run.is_active, timeout_s, pause)
        if not at_boundary:
            self._stop(run)
        if not run.is_active:
            self._release()
        return at_boundary

    def halt(self) -> bool:
        """Stop the query immediately. Return False if the query may still be running."""
        if self._run is None:
            return True
        self._stop(self._run)
        self._release()
        return not self._run.is_active

    def close(self) -> None:
        """Release a query that has ended without a request."""
        self._release()

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Return whether the first trigger of the query has begun; wait for it up to the timeout."""
        run = self._current
        if not run.has_triggered and run.is_active:
            self._in_jvm(lambda: run.wait(timeout_s))
        return run.has_triggered

    def _stop(self, run: QueryRun) -> None:
        if self._model.stops_hang:
            self._kernel.hang()
        self._in_jvm(run.interrupt)
        deadline = self._kernel.now + HALT_TIMEOUT_S
        while run.is_active and self._kernel.now < deadline:
            self._in_jvm(lambda: run.wait(deadline - self._kernel.now))

    def _wait(
        self, run: QueryRun, is_reached: Callable[[], bool], timeout_s: float, pause: Callable[[float], None]
    ) -> bool:
        deadline = self._kernel.now + timeout_s
        while not is_reached() and self._kernel.now < deadline:
            self._in_jvm(lambda: run.wait(min(CHECK_INTERVAL_S, deadline - self._kernel.now)))
            pause(0.0)
        return is_reached()

    def _release(self) -> None:
        if self.plan is not None:
            self._model.record(f"{self._model.job}: query ended")
        self.plan = None

    # ---- reports ----------------------------------------------------------------------------------------------------

    def has_ended(self) -> bool:
        """Return whether the query has ended without a request."""
        return self.plan is not None and not self._current.is_active

    def failure(self) -> FailureReport | None:
        """Return why the query failed, or None."""
        return None if self._run is None else self._run.failure

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the progress of the query."""
        self._in_jvm(lambda: None)
        return () if self._run is None else (self._report(),)

    def stateful_run(self) -> StatefulRun | None:
        """Return None: the query has no state that is placed on executors."""
        return None

    def parallelism(self) -> dict[str, int]:
        """Return the effective parallelism of each vertex."""
        return {} if self.plan is None else dict(self.plan.parallelism)

    def _report(self) -> QueryReport:
        """Return the progress over all runs of this driver."""
        run, previous = self._run, self._previous
        if run is None or not run.batches:
            return replace(previous, active=self.plan is not None)
        newest = run.batches[-1]
        return QueryReport(
            name=self._model.job,
            active=self.plan is not None,
            batch_id=newest.number,
            committed=previous.committed + len(run.batches),
            input_rows=previous.input_rows + newest.end - run.batches[0].start,
            batch_rows=newest.end - newest.start,
            batch_duration_ms=round(run.duration_s * 1000),
            backlog=self._model.available - newest.end,
            idle=run.is_between_batches,
            trigger_interval_ms=0,
        )

    @property
    def _current(self) -> QueryRun:
        assert self._run is not None
        return self._run

    def _in_jvm(self, act: Callable[[], Result]) -> Result:
        return self._processes.in_jvm(act)
