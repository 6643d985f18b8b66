"""Interfaces of the components of the driver loop, so that tests can run the driver loop without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_adaptive._core.protocol.documents import (
    Decommission,
    Directive,
    DriverPlan,
    DriverStatus,
    ExecutorLoad,
    ExecutorReport,
    FailureReport,
    PreparedQuery,
    QueryReport,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class DirectoryError(Exception):
    """A read or write of the job directory failed, perhaps only temporarily."""


class QueryStillRunsError(Exception):
    """A query that must not run could not be stopped, so nothing else may run in this process."""


class BatchStillRunsError(QueryStillRunsError):
    """A batch does not end although it was interrupted. The scheduler replaces the driver, and does not count a failure."""


class MissingSlotsError(Exception):
    """A plan has too few slots for queries whose tasks must run at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulRun:
    """A run of a stateful query that has committed a batch.

    Attributes:
        run_id: Spark's id of the run, which is also the group of its jobs.
        batch_id: number of the newest committed batch of the run.
        state_partitions: number of partitions of the state.
    """

    run_id: str
    batch_id: int
    state_partitions: int


class JournalFiles(Protocol):
    """The files of the journal; see `hadoop_directory.HadoopJobDirectory`."""

    def journal_numbers(self) -> Sequence[int]:
        """Return the numbers of the existing documents, in no order. Raises `DirectoryError`."""

    def read_journal(self, number: int) -> bytes | None:
        """Return a document, or None if it does not exist. Raises `DirectoryError`."""


class StatusFile(Protocol):
    """The file of the driver status; see `hadoop_directory.HadoopJobDirectory`."""

    def read_status(self) -> bytes | None:
        """Return the status of any driver, or None if there is none. Raises `DirectoryError`."""

    def write_status(self, data: bytes) -> None:
        """Replace the status atomically. Raises `DirectoryError`."""


class DirectiveSource(Protocol):
    """Source of directives; see `scheduler_link.JournalReader`."""

    def newest(self) -> Directive | None:
        """Return the directive of the newest valid document, or None if there is none. Raises `DirectoryError`."""


class RunningWorkload(Protocol):
    """Queries or a batch that the driver starts and ends; see `job_queries.JobQueries` and `batch_query.BatchQuery`."""

    @property
    def plan(self) -> DriverPlan | None:
        """The active plan, or None if no query was started or the queries were ended."""

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Return whether the queries run and a plan needs no restart of them (`DriverPlan.query_version`)."""

    def adopt(self, plan: DriverPlan) -> None:
        """Make a plan active without a restart (rescale tier 0). The plan fulfills `can_adopt`, and its executors are registered."""

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Call `act` while no batch runs, and let the queries continue. Returns False if no such moment occurs in time."""

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End each query at a batch boundary. Returns False if a batch had to be interrupted after the timeout.

        Raises:
            BatchStillRunsError: a batch does not end although it was interrupted.
        """

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Return whether the first trigger of each query has begun; wait for it up to the timeout. False after a failure."""

    def has_ended(self) -> bool:
        """Return whether all queries have ended without a request, or one has failed. After a failure, `end` ends the others."""

    def close(self) -> None:
        """Release queries that have ended without a request."""

    def failure(self) -> FailureReport | None:
        """Return why a query failed, with the name of the query, or None if no query failed."""

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the progress of each query."""

    def stateful_run(self) -> StatefulRun | None:
        """Return the run with the most state partitions, whose tasks the balancer spreads, or None without a committed batch of a stateful query."""

    def parallelism(self) -> dict[str, int]:
        """Return the effective parallelism of each vertex."""


class Workload(Protocol):
    """Builds, starts and halts the queries or the batch of the job; see `batch_query.JobWorkload`."""

    @property
    def running(self) -> RunningWorkload:
        """What was started last, the queries or the batch; before the first start, the queries."""

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """Vertices whose parallelism the build function has read since its last call, or None before the first call."""

    @property
    def gangs(self) -> Mapping[str, int]:
        """Slots that each query in Real-Time Mode needs at the same time, by the name of the query; see `DriverStatus.gangs`."""

    def build(self, plan: DriverPlan) -> Any:
        """Call the build function for a plan, while running queries continue.

        Raises:
            AdaptiveJobError: the function returned something that cannot run, returned other queries than before, or started a query.
            RepartitionError: the state cannot have the number of partitions of the plan.
            MissingSlotsError: the plan has too few slots for the queries.
            Exception: any exception of the function.
        """

    def warm_up(self, plan: DriverPlan, *, has_executors: bool) -> tuple[PreparedQuery, ...]:
        """Prepare for a first batch that is fast, before this driver may run queries, and without an effect on the job.

        With executors, copies of the queries run one batch each: without their sinks, and with checkpoints of their own.

        Returns:
            What is known of the queries; empty for a script that starts its queries itself, and for a batch.

        Raises:
            Exception: the queries cannot be built, or cannot read the state in the checkpoint.
        """

    def is_prepared(self, writers: Any, plan: DriverPlan) -> bool:
        """Return whether `prepare`, which may take long, has nothing to do."""

    def prepare(self, writers: Any, plan: DriverPlan) -> None:
        """Give the state of each query the number of partitions of the plan, while no query runs (rescale tier 2).

        First completes a repartition that was interrupted, even if the plan does not need it.

        Raises:
            DamagedCheckpointError: files of the checkpoint are missing or damaged.
            RepartitionError: the query cannot use the state.
            TopicRecreatedError: the query has read a topic that was created again.
        """

    def start(self, writers: Any, plan: DriverPlan) -> None:
        """Start the writers that `build` returned, all or none. Raises the exceptions of Spark, and `QueryStillRunsError`."""

    def halt(self) -> bool:
        """Cancel all Spark jobs, and stop all queries immediately. Returns False if a query may still be running."""


class StateRepartitioner(Protocol):
    """Changes the number of partitions of the state in a checkpoint; see `repartition.CheckpointRepartitioner`.

    All methods raise the exceptions of Spark if the checkpoint cannot be read or written.
    """

    def state_partitions(self, checkpoint: str) -> int | None:
        """Return the number of partitions of the state after the last committed batch, or None without state."""

    def state_format(self, checkpoint: str) -> int | None:
        """Return the format of the state after the last committed batch, or None without state."""

    def check(self, checkpoint: str, partitions: int, writer: DataStreamWriter) -> None:
        """Check whether a repartition would fail, without a change; the query may run.

        A query without state, a query without a committed batch, and state with that number of partitions pass, because they need no
        repartition: a plan has a number for each query of the job.

        Raises:
            RepartitionError: the state cannot have that number of partitions, belongs to another query, is damaged, or a newer Spark has written it.
        """

    def ensure(self, checkpoint: str, partitions: int | None, writer: DataStreamWriter) -> None:
        """Let a query that does not run start from its checkpoint, with this number of state partitions; None keeps the number.

        The method first completes what was interrupted before. Therefore it may itself be interrupted at any time, and called again with
        the same or another number. The writer runs once if a batch of the query was interrupted.

        Raises:
            RepartitionError: see `check`; the query can start as before. Damaged state is found only when Spark reads it.
            DamagedCheckpointError: an interrupted repartition cannot be completed, because a file of the state is missing or damaged.
            StreamingQueryException: the interrupted batch fails again.
        """


class ExecutorPool(Protocol):
    """The executors of the application; see `executors.SparkExecutorPool`."""

    def alive(self) -> bool:
        """Return whether the SparkContext is running; without it, nothing can run in this process."""

    def registered(self) -> tuple[ExecutorReport, ...]:
        """Return the executors that accept tasks, oldest first."""

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        """Return whether each executor has completed more tasks than it has slots, so that its JVM is warm."""

    def load(self) -> ExecutorLoad | None:
        """Return the totals of the registered executors, at most some seconds old; None if they are unknown."""

    def exiting(self) -> Sequence[str]:
        """Return the ids of executors that accept no tasks: they were released and have not exited yet."""

    def decommission(self) -> Decommission:
        """Return what an administrator takes from the job."""

    def request_total(self, total: int) -> None:
        """Request a total number of executors; the cluster manager starts and replaces executors up to it. It removes none: see `release`."""

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Release executors above `total` that run no task; another call releases the others. `keep` is the number that remains on each worker."""


class TaskBalancer(Protocol):
    """Spreads stateful tasks over executors; see `executors.LocalityBalancer`."""

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """Continue the balancing. Returns whether it is complete: the tasks are balanced, or cannot be balanced in time."""

    def ignore_locality(self) -> None:
        """Let the tasks of released executors run elsewhere from the next batch on."""

    def restore(self) -> None:
        """Restore Spark's original configuration, because the query ends or the balancing is complete."""


class StatusReporter(Protocol):
    """Writes the driver status; see `driver_status.FileStatusReporter`."""

    def report(self, status: DriverStatus) -> bool:
        """Write the status if it has changed or a heartbeat is due. Returns whether it was written."""

    def report_fenced(self, status: DriverStatus) -> None:
        """Write the last status of a fenced driver, unless its successor has already written a status."""


class Operation(Protocol):
    """A long operation in a thread of its own; see `entry.driver.OperationThread`."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the operation up to the timeout, and return whether the operation has ended."""

    def exception(self) -> BaseException | None:
        """Return the exception of an operation that has ended, or None."""

    def result(self) -> Any:
        """Return the result of an operation that has ended without an exception."""


class Watchdog(Protocol):
    """Ends the processes of a driver whose lease has expired; see `fence.LeaseWatchdog`."""

    @property
    def is_enforcing(self) -> bool:
        """Whether the lease is enforced, because a query may be running."""

    def enforce(self, lease_end: float) -> None:
        """Enforce a lease that ends at this time of the boot clock until the next call, or no lease if it ends never."""

    def close(self) -> None:
        """Enforce no lease any more."""


class Termination(Protocol):
    """The request of others, not of the scheduler, that this driver ends; see `entry.driver.Sigterm`."""

    def is_requested(self) -> bool:
        """Return whether this driver has to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInterfaces:
    """The components of a driver, which the parts of the driver loop share.

    Attributes:
        journal: source of directives.
        reporter: writer of the driver status.
        workload: queries or batch of the job.
        executors: executors of the application.
        balancer: balancer of the tasks.
        termination: request of others that this driver ends.
        start_operation: starts a long operation, with the Spark properties of the calling thread.
        clock: monotonic clock that does not stop while the host is suspended, in seconds.
        sleep: waits for a number of seconds.
        warn: writes a warning to the driver's output.
    """

    journal: DirectiveSource
    reporter: StatusReporter
    workload: Workload
    executors: ExecutorPool
    balancer: TaskBalancer
    termination: Termination
    start_operation: Callable[[Callable[[], Any]], Operation]
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    warn: Callable[[str], None]
