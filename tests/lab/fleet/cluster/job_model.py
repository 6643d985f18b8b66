"""The work of one simulated job, as an observer outside all processes sees it: the source, the sink, and what must never happen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_adaptive._core.protocol.documents import FailureReport
from tests.lab.fleet.cluster.checkpoint import Batch, Head
from tests.lab.fleet.kernel.kernel import Action, Kernel

RESUME_S = 1.5
"""Time in seconds within which a driver stops after its host was suspended for longer than its lease. Until then the driver may execute its
last batch again, which the sink ignores (tests/lab/results/faults.md, what is not covered)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadShape:
    """What the script of a job does.

    Attributes:
        records: number of records of a bounded source, None for a source without an end.
        rate: records that arrive per second at a source without an end.
        batch_s: least duration of a batch, in seconds.
        record_s: time of one slot for one record, in seconds.
        batch_records: greatest number of records of a batch.
        build_s: duration of the build function, in seconds.
        start_s: time from the start of a query to its first trigger, in seconds.
        idle_s: pause of a query without new records, in seconds.
        repartition_s: duration of a repartition of the state (rescale tier 2), in seconds.
        reads_parallelism: whether the build function reads the parallelism, so that a change needs new queries (rescale tier 1).
    """

    records: int | None = None
    rate: float = 100.0
    batch_s: float = 1.0
    record_s: float = 0.002
    batch_records: int = 5_000
    build_s: float = 0.5
    start_s: float = 0.5
    idle_s: float = 1.0
    repartition_s: float = 3.0
    reads_parallelism: bool = False


@dataclass(slots=True)
class JobModel:
    """Source, sink and faults of the queries of one job, over all its drivers.

    Attributes:
        job: id of the job.
        shape: what the script does.
        violations: violations of exactly-once processing, with the id of the job.
        output: batches in the sink, by number.
        committed: number of the last committed batch, -1 before the first one.
        found: last committed batch that a query found in its checkpoint when it began, -1 before the first one.
        failures: failures that the next batch of a query raises, while they are active.
        build_errors: errors that the build function raises, while they are active.
        stalls: number of active faults that let no batch end.
        stops_hang: whether a request to stop a query never returns.
        resumed_at: time at which the host of a driver of the job was last resumed, in seconds.
    """

    kernel: Kernel
    record: Callable[[str], None]
    job: str
    shape: WorkloadShape
    violations: list[str] = field(default_factory=list)
    output: dict[int, Batch] = field(default_factory=dict)
    committed: int = -1
    found: int = -1
    state_partitions: int | None = None
    failures: list[FailureReport] = field(default_factory=list)
    build_errors: list[Exception] = field(default_factory=list)
    stalls: int = 0
    stops_hang: bool = False
    resumed_at: float = -math.inf

    @property
    def is_resuming(self) -> bool:
        """Whether the host of a driver has just been resumed, so that the driver may not have noticed the end of its lease."""
        return self.kernel.now - self.resumed_at <= RESUME_S

    @property
    def processed(self) -> int:
        """Number of records in the sink."""
        return 0 if not self.output else next(reversed(self.output.values())).end

    @property
    def available(self) -> int:
        """Number of records that the source has."""
        return int(self.shape.rate * self.kernel.now) if self.shape.records is None else self.shape.records

    @property
    def is_complete(self) -> bool:
        """Whether each record of a bounded source is in the sink, and committed."""
        return self.processed == self.shape.records and self.committed == len(self.output) - 1

    # ---- faults -----------------------------------------------------------------------------------------------------

    def fail_queries(self, failure: FailureReport) -> Action:
        """Let each batch fail. Return the function that ends the fault."""
        self.failures.append(failure)
        return lambda: self.failures.remove(failure)

    def stall_queries(self) -> Action:
        """Let no batch end. Return the function that ends the fault."""
        self.stalls += 1

        def end() -> None:
            self.stalls -= 1

        return end

    # ---- what queries do --------------------------------------------------------------------------------------------

    def begin(self, head: Head) -> None:
        """A query has read its checkpoint."""
        newest = -1 if head.newest is None else head.newest.number
        if head.committed < self.committed or newest < len(self.output) - 1:
            self._violate(f"the checkpoint went back to batch {newest}, commit {head.committed}")
        if head.committed >= len(self.output):
            self._violate(f"batch {head.committed} is committed and not in the sink")
        self.committed = self.found = head.committed

    def write(self, batch: Batch) -> None:
        """A query writes the output of a batch to the sink. The sink ignores a batch that it has."""
        if batch.number <= self.committed and not self.is_resuming:
            self._violate(f"batch {batch.number} was written again after its commit")
        if batch.number in self.output:
            if self.output[batch.number] != batch:
                self._violate(f"the replay of batch {batch.number} has other records")
            return
        if batch.number != len(self.output) or batch.start != self.processed:
            kind = "lost" if batch.start > self.processed else "duplicated"
            self._violate(
                f"batch {batch.number} begins at record {batch.start}, not {self.processed}: records are {kind}"
            )
        self.output[batch.number] = batch

    def commit(self, number: int) -> None:
        """A query has committed a batch. The notice of a query that was frozen after its commit is late: the next query has found the commit."""
        if number <= self.found:
            return
        if number != self.committed + 1:
            self._violate(f"batch {number} was committed after batch {self.committed}")
        self.committed = number
        self.record(f"{self.job}: batch {number} committed, {self.processed} records")

    def _violate(self, text: str) -> None:
        self.violations.append(f"{self.job}: {text}")
        self.record(f"{self.job}: VIOLATION: {text}")
