"""A model of one streaming query, which reads its input in micro-batches on its slots.

A batch begins at its trigger, or when the previous batch has ended. The batch reads the input up to a limit (`maxOffsetsPerTrigger`), and
takes `fixed + row_cost * rows / effective slots`. A change of the slots changes the speed of the running batch. The model preserves
rows: each input row is processed, in process, or waiting.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_adaptive.autoscaling.load.batch_cost import effective
from airflow_adaptive.autoscaling.simulation.trace import Trace

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryModel:
    """Parameters of a query.

    Attributes:
        slot_rate: rows per second of one slot.
        fixed: duration of a batch without rows, in seconds.
        trigger: seconds between two triggers.
        most_rows: maximum number of rows of a batch.
        partitions: state partitions; 1 for a stateless query.
    """

    slot_rate: float
    fixed: float
    trigger: float
    most_rows: float
    partitions: int = 1

    def capacity(self, slots: int) -> float:
        """Return rows per second that the slots can process permanently."""
        return max(0.0, self.trigger - self.fixed) / self.trigger * self.slot_rate * effective(slots, self.partitions)


class Batches:
    """The batches of a query under a load."""

    def __init__(self, query: QueryModel, trace: Trace) -> None:
        self.query, self.trace = query, trace
        self.now = 0.0
        self.working = 0.0
        """Effective slots."""
        self.taken = 0.0
        """Rows that were read."""
        self.processed = 0.0
        self.begun = -query.trigger
        """Time of the last poll."""
        self.ends = NEVER
        """End of the running batch, `NEVER` without one."""
        self.resumes = 0.0
        """Earliest begin of the next batch."""
        self.last: Batch | None = None
        self.lags = array("d")
        """Age of the oldest row of each batch at its commit, in seconds."""
        self.spans = array("d")
        """Seconds since the previous commit."""
        self._running: Batch | None = None
        self._left = 0.0
        self._oldest = 0.0
        self._committed_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether a batch is running."""
        return self._running is not None

    def arrived(self, at: float) -> float:
        """Return the input rows until `at`."""
        trace, index = self.trace, self._segment(self.trace.times, at)
        return trace.totals[index] + trace.rates[index] * (at - trace.times[index])

    def waiting(self) -> float:
        """Return the input rows that are not processed."""
        return self.arrived(self.now) - self.processed

    def work_on(self, slots: int, tasks: int) -> None:
        """Change the slots and the number of tasks of a stage (1: the number of slots)."""
        before, self.working = self.working, effective(slots, tasks) if slots > 0 else 0.0
        if self._running is None or before == self.working:
            return
        if before > 0:
            self._left = max(0.0, self.ends - self.now) * before
        self.ends = self.now + self._left / self.working if self.working > 0 else NEVER

    def run(self, until: float, *, to_commit: bool = False) -> bool:
        """Advance the time to `until`, or to the next commit with `to_commit`; returns whether a batch has ended."""
        while True:
            if self._running is not None:
                if self.ends > until:
                    break
                self._commit(self._running)
                if to_commit:
                    return True
            start = max(self.now, self.begun + self.query.trigger, self.resumes)
            if start > until or self.working <= 0:
                break
            self.now = start
            self._begin()
        self.now = until
        return False

    def _begin(self) -> None:
        query, now = self.query, self.now
        arrived = self.arrived(now)
        rows = min(arrived - self.taken, query.most_rows)
        interval, self.begun = now - self.begun, now
        if rows <= 0:
            self._record(Batch(rows=0.0, interval=interval, seconds=0.0, unread=0.0), 0.0)
            return
        self._oldest = self._arrival(self.taken)
        self.taken += rows
        self._running = Batch(rows=rows, interval=interval, seconds=0.0, unread=arrived - self.taken)
        self.ends = now + query.fixed + rows / (query.slot_rate * self.working)

    def _commit(self, batch: Batch) -> None:
        self.now, self.ends, self._running = self.ends, NEVER, None
        self.processed += batch.rows
        seconds = self.now - self.begun
        self._record(Batch(batch.rows, batch.interval, seconds, batch.unread), self.now - self._oldest)

    def _record(self, batch: Batch, lag: float) -> None:
        self.last = batch
        self.lags.append(lag)
        self.spans.append(self.now - self._committed_at)
        self._committed_at = self.now

    def _arrival(self, row: float) -> float:
        """Return the time at which a row arrived."""
        trace, index = self.trace, self._segment(self.trace.totals, row)
        rate = trace.rates[index]
        return trace.times[index] + ((row - trace.totals[index]) / rate if rate > 0 else 0.0)

    def _segment(self, begins: Sequence[float], value: float) -> int:
        """Return the index of the last rate of the trace that begins at or before a value."""
        return min(bisect_right(begins, value), len(self.trace.rates)) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: rows, seconds since the begin of the previous batch, duration in seconds, and unread rows."""

    rows: float
    interval: float
    seconds: float
    unread: float
