"""What the control loop is put together from, as protocols: so that it can be tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_adaptive.job.protocol.documents import (
    Directive,
    DriverPlan,
    DriverStatus,
    ExecutorReport,
    FailureReport,
    QueryReport,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class DirectoryError(Exception):
    """The job directory can't be read or written now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulRun:
    """A run of a query that keeps state, after its first batch.

    Attributes:
        run_id: Spark's id of the run; its jobs have it as their group.
        batch_id: newest committed batch of the run.
        state_partitions: partitions of its state.
    """

    run_id: str
    batch_id: int
    state_partitions: int


class Journal(Protocol):
    """Where directives come from; see `log.JournalReader`."""

    def newest(self) -> Directive | None:
        """The newest directive that can be trusted, None if there is none. Raises `DirectoryError`."""
        ...


class RunningWorkload(Protocol):
    """What comes of the writers; see `queries.JobQueries` and `batch.BatchQuery`."""

    @property
    def plan(self) -> DriverPlan | None:
        """The plan that is in force; None if the queries were ended, or never started."""
        ...

    def can_adopt(self, plan: DriverPlan) -> bool:
        """Whether the queries run and need not be restarted for a plan (`DriverPlan.query_version`)."""
        ...

    def adopt(self, plan: DriverPlan) -> None:
        """Take a plan that `runs_on` for the one that is in force: its executors are there (rescale tier 0)."""
        ...

    def act_between_batches(self, timeout_s: float, pause: Callable[[float], None], act: Callable[[], None]) -> bool:
        """Do something while no batch runs, and let the queries go on; False if there was no such moment in time."""
        ...

    def start(self, writers: Any, plan: DriverPlan) -> None:
        """Start what `build` returned. Raises what Spark raises."""
        ...

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End each query at a batch boundary; False if the batch of one had to be cut after the timeout."""
        ...

    def halt(self) -> None:
        """Stop all queries at once."""
        ...

    def wait_for_first_trigger(self, timeout_s: float) -> bool:
        """Whether the first trigger of each query has begun; waits for them so long."""
        ...

    def has_ended(self) -> bool:
        """Whether all queries have ended without being told to, or one has failed: then `end` ends the others."""
        ...

    def close(self) -> None:
        """Let go of queries that have ended without being told to."""
        ...

    def failure(self) -> FailureReport | None:
        """Why a query failed, with its name; None if nothing went wrong."""
        ...

    def reports(self) -> tuple[QueryReport, ...]:
        """Progress of each query."""
        ...

    def stateful_run(self) -> StatefulRun | None:
        """What runs with the most state, None if nothing keeps any or has not committed a batch yet."""
        ...

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex in force."""
        ...


class Workload(RunningWorkload, Protocol):
    """The job's queries or its batch; see `work.JobWorkload`."""

    @property
    def vertices_read(self) -> tuple[str, ...] | None:
        """Vertices whose parallelism the author's function asked for when it was called last, None before."""
        ...

    def build(self, plan: DriverPlan) -> Any:
        """Let the author's function make the queries for a plan; what runs goes on meanwhile.

        Raises:
            AdaptiveJobError: it returned something that can't be run, or other queries than those that run, or started one.
            RepartitionError: the plan wants the state in a number of partitions that it can't have.
            Exception: what the function raises.
        """
        ...

    def is_prepared(self, writers: Any, plan: DriverPlan) -> bool:
        """Whether `prepare`, which may take long, has nothing to do."""
        ...

    def prepare(self, writers: Any, plan: DriverPlan) -> None:
        """Give the state of each query its partitions, now that nothing runs (rescale tier 2).

        A repartition that was interrupted is finished first, whatever the plan.

        Raises:
            RepartitionError: the state can't be used by the query.
        """
        ...


class StateRepartitioner(Protocol):
    """Gives the state in a checkpoint another number of partitions; see `repartition.CheckpointRepartitioner`."""

    def check(self, checkpoint: str, partitions: int, writer: DataStreamWriter) -> None:
        """Find out, without changing anything, whether the query's state can have that many. Raises `RepartitionError`."""
        ...

    def ensure(self, checkpoint: str, partitions: int | None, writer: DataStreamWriter) -> None:
        """Finish what was interrupted, then give the state that many, unless None. Raises `RepartitionError`."""
        ...


class ExecutorPool(Protocol):
    """The application's executors; see `executors.Executors`."""

    def alive(self) -> bool:
        """Whether the SparkContext is."""
        ...

    def registered(self) -> tuple[ExecutorReport, ...]:
        """The executors that take tasks, in the order in which they were started."""
        ...

    def are_warm(self, executors: Sequence[ExecutorReport]) -> bool:
        """Whether each of these has done more tasks than it has slots, so that its code is loaded."""
        ...

    def exiting(self) -> Sequence[str]:
        """Ids of those that were given back and have not ended yet."""
        ...

    def request_total(self, total: int) -> None:
        """Tell the cluster manager how many executors the application wants."""
        ...

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Give back executors above `total` that have no task now; `keep` tells how many stay on each worker."""
        ...


class TaskBalancer(Protocol):
    """Spreads stateful tasks over executors; see `balance.Balancer`."""

    def rebalance(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> bool:
        """Look whether the tasks lie evenly, if that is open; whether no more is to be done about it."""
        ...

    def ignore_locality(self) -> None:
        """Let tasks leave executors that are given back, at once."""
        ...

    def restore(self) -> None:
        """Leave Spark's configuration as it was found."""
        ...


class StatusReporter(Protocol):
    """Writes the status; see `reporter.Reporter`."""

    def report(self, status: DriverStatus) -> bool:
        """Write the status if it says something new, or if a heartbeat is due; whether it was written."""
        ...

    def report_fenced(self, status: DriverStatus) -> None:
        """Write the last status of a fenced driver, unless its successor writes there already."""
        ...
