"""A model of one streaming query: it reads what has come in, in micro-batches, on the slots that it has.

A batch begins at its trigger, or when the one before has ended. It takes what has come in until then, up to a limit as sources
have it (`maxOffsetsPerTrigger`), and lasts `fixed + row_cost * rows / effective slots`. Slots that come or go change the speed of
the batch that runs. Nothing is lost: rows that came in were processed, are being processed, or wait.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from airflow_adaptive.autoscaling.load.batch_cost import effective
from airflow_adaptive.autoscaling.simulation.trace import Trace

NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a query is like.

    Attributes:
        slot_rate: rows per second of one slot.
        fixed: seconds of a batch without rows.
        trigger: seconds between two triggers.
        most_rows: of one batch.
        partitions: of its state; 1 if its tasks follow the slots.
    """

    slot_rate: float
    fixed: float
    trigger: float
    most_rows: float
    partitions: int = 1

    def capacity(self, slots: int) -> float:
        """Rows per second that these slots can process for ever."""
        return max(0.0, self.trigger - self.fixed) / self.trigger * self.slot_rate * effective(slots, self.partitions)


class Batches:
    """The batches of a query under a load."""

    def __init__(self, query: Query, trace: Trace) -> None:
        """Nothing was read yet; it has no slots."""
        self.query, self.trace = query, trace
        self.now = 0.0
        self.working = 0.0
        """Effective slots."""
        self.taken = 0.0
        """Rows that were read."""
        self.processed = 0.0
        self.looked = 0
        """How often the query has looked for rows and was done with what it found."""
        self.begun = -query.trigger
        """When it looked last."""
        self.ends = NEVER
        """When the batch that runs ends, `NEVER` without one."""
        self.resumes = 0.0
        """No batch begins before."""
        self.last: Batch | None = None
        self.lags = array("d")
        """Age of the oldest row of each batch when that was committed, seconds."""
        self.spans = array("d")
        """Seconds since the commit before."""
        self._running: Batch | None = None
        self._left = 0.0
        self._oldest = 0.0
        self._committed_at = 0.0
        self._came, self._read = 0, 0

    @property
    def runs(self) -> bool:
        """Whether a batch runs now."""
        return self._running is not None

    def arrived(self, at: float) -> float:
        """Rows that have come in; `at` never goes back."""
        trace, index = self.trace, self._came
        last = len(trace.rates) - 1
        while index < last and trace.times[index + 1] <= at:
            index += 1
        self._came = index
        return trace.totals[index] + trace.rates[index] * (at - trace.times[index])

    def waiting(self) -> float:
        """Rows that have come in and were not processed."""
        return self.arrived(self.now) - self.processed

    def work_on(self, slots: int, tasks: int) -> None:
        """From now on there are so many slots, for stages of so many tasks (1: as many as slots)."""
        before, self.working = self.working, effective(slots, tasks) if slots > 0 else 0.0
        if self._running is None or before == self.working:
            return
        if before > 0:
            self._left = max(0.0, self.ends - self.now) * before
        self.ends = self.now + self._left / self.working if self.working > 0 else NEVER

    def run(self, until: float, *, to_commit: bool = False) -> bool:
        """Let time pass until then, or to the end of a batch if that is asked for; whether one has just ended."""
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
            self._note(Batch(rows=0.0, interval=interval, seconds=0.0, unread=0.0), 0.0)
            return
        self._oldest = self._arrival(self.taken)
        self.taken += rows
        self._running = Batch(rows=rows, interval=interval, seconds=0.0, unread=arrived - self.taken)
        self.ends = now + query.fixed + rows / (query.slot_rate * self.working)

    def _commit(self, batch: Batch) -> None:
        self.now, self.ends, self._running = self.ends, NEVER, None
        self.processed += batch.rows
        seconds = self.now - self.begun
        self._note(Batch(batch.rows, batch.interval, seconds, batch.unread), self.now - self._oldest)

    def _note(self, batch: Batch, lag: float) -> None:
        self.looked += 1
        self.last = batch
        self.lags.append(lag)
        self.spans.append(self.now - self._committed_at)
        self._committed_at = self.now

    def _arrival(self, row: float) -> float:
        """When this row came in; rows are asked for in their order."""
        trace, index = self.trace, self._read
        last = len(trace.rates) - 1
        while index < last and trace.totals[index + 1] <= row:
            index += 1
        self._read = index
        rate = trace.rates[index]
        return trace.times[index] + ((row - trace.totals[index]) / rate if rate > 0 else 0.0)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a batch tells: rows, seconds since the one before began, seconds that it took, rows that it left unread."""

    rows: float
    interval: float
    seconds: float
    unread: float
