"""What the control loop is put together from, as protocols: so that it can be tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from airflow_adaptive.job.documents import Directive, DriverPlan, ExecutorReport, FailureReport, QueryReport, Status
from airflow_adaptive.job.progress import StatefulRun


class Log(Protocol):
    """Where directives come from; see `log.LogReader`."""

    def newest(self) -> Directive | None:
        """The newest directive that can be trusted, None if there is none. Raises `DirectoryError`."""
        ...


class Run(Protocol):
    """What comes of a writer; see `queries.JobQuery` and `batch.BatchQuery`."""

    @property
    def plan(self) -> DriverPlan | None:
        """The plan that the query was started with; None if it was ended, or never started."""
        ...

    def runs_on(self, plan: DriverPlan) -> bool:
        """Whether the query runs and need not be restarted for a plan."""
        ...

    def start(self, writer: Any, plan: DriverPlan) -> None:
        """Start what `build` returned. Raises what Spark raises."""
        ...

    def end(self, timeout_s: float, pause: Callable[[float], None]) -> bool:
        """End the query at a batch boundary; False if its batch had to be cut after the timeout."""
        ...

    def halt(self) -> None:
        """Stop all queries at once."""
        ...

    def triggered(self, timeout_s: float) -> bool:
        """Whether the first trigger of this run has begun; waits for it so long."""
        ...

    def ended(self) -> bool:
        """Whether the query has ended without being told to."""
        ...

    def close(self) -> None:
        """Let go of a query that has ended without being told to."""
        ...

    def failure(self) -> FailureReport | None:
        """Why the query ended, None if it runs or nothing went wrong."""
        ...

    def reports(self) -> tuple[QueryReport, ...]:
        """Progress of the query."""
        ...

    def stateful_run(self) -> StatefulRun | None:
        """What runs, None if it keeps no state or has not committed a batch yet."""
        ...

    def parallelism(self) -> dict[str, int]:
        """Parallelism per vertex in force."""
        ...


class Query(Run, Protocol):
    """The job's query or batch; see `work.JobWork`."""

    def build(self, plan: DriverPlan) -> Any:
        """Let the author's function make the query for a plan. Raises what that raises."""
        ...


class ExecutorPool(Protocol):
    """The application's executors; see `executors.Executors`."""

    def alive(self) -> bool:
        """Whether the SparkContext is."""
        ...

    def registered(self) -> tuple[ExecutorReport, ...]:
        """The executors that take tasks, in the order in which they were started."""
        ...

    def declare(self, total: int) -> None:
        """Tell the cluster manager how many executors the application wants."""
        ...

    def release(self, total: int, keep: Mapping[str, int]) -> None:
        """Give back executors above `total` that have no task now; `keep` tells how many stay on each worker."""
        ...


class TaskBalancer(Protocol):
    """Spreads stateful tasks over executors; see `balance.Balancer`."""

    def follow(self, executors: Sequence[ExecutorReport], run: StatefulRun) -> None:
        """Look whether the tasks lie evenly, if that is open."""
        ...

    def restore(self) -> None:
        """Leave Spark's configuration as it was found."""
        ...


class StatusReporter(Protocol):
    """Writes the status; see `reporter.Reporter`."""

    def report(self, status: Status) -> bool:
        """Write the status if it says something new, or if a heartbeat is due; whether it was written."""
        ...

    def report_fenced(self, status: Status) -> None:
        """Write the last status of a fenced driver, unless its successor writes there already."""
        ...
