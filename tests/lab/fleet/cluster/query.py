"""A simulated streaming query: a thread of the JVM that executes batch after batch."""

from __future__ import annotations

from collections.abc import Callable

from airflow_adaptive._core.protocol.documents import FailureReport
from tests.lab.fleet.cluster.checkpoint import Batch, Head, SimulatedCheckpoint
from tests.lab.fleet.cluster.job_model import JobModel
from tests.lab.fleet.kernel.kernel import Action, Kernel

STALL_CHECK_S = 1.0
"""Interval in seconds at which a batch that cannot end checks whether it can: for executors, and for the end of a fault."""


class _QueryFailedError(Exception):
    """The query has failed; the argument is the report."""


class QueryRun:
    """One run of the query.

    Attributes:
        is_active: whether the thread of the query lives.
        is_between_batches: whether no batch runs, and none begins without `release`.
        has_triggered: whether the first trigger has begun.
        failure: why the query failed, or None.
        batches: batches that this run has committed.
        duration_s: duration of the newest batch, in seconds.
    """

    def __init__(
        self, kernel: Kernel, model: JobModel, checkpoint: SimulatedCheckpoint, slots: Callable[[], int]
    ) -> None:
        """Create a run; `start` starts it.

        Args:
            kernel: the kernel.
            model: source and sink.
            checkpoint: checkpoint of the query.
            slots: returns the slots of the living executors.
        """
        self.is_active = True
        self.is_between_batches = False
        self.has_triggered = False
        self.failure: FailureReport | None = None
        self.batches: list[Batch] = []
        self.duration_s = 0.0
        self._kernel = kernel
        self._model = model
        self._checkpoint = checkpoint
        self._slots = slots
        self._must_end = False
        self._is_interrupted = False
        self._is_held = False
        self._wake: Action = lambda: None
        self._observers: list[Action] = []

    def start(self) -> None:
        """Start the thread, in the current process."""
        self._kernel.start_thread(self._run)

    # ---- called by the driver loop ----------------------------------------------------------------------------------

    def end(self) -> None:
        """End the query at the next batch boundary."""
        self._must_end = True
        if self.is_between_batches:
            self._wake()

    def interrupt(self) -> None:
        """End the query now. A call to the storage that does not return continues."""
        self._must_end = self._is_interrupted = True
        self._wake()

    def hold(self) -> None:
        """Begin no further batch until `release`."""
        self._is_held = True

    def release(self) -> None:
        """Continue after `hold`."""
        self._is_held = False
        self._wake()

    def wait(self, seconds: float) -> None:
        """Block the current thread until the state of the query changes, or for a time."""

        def plan(wake_up: Action) -> None:
            self._observers.append(wake_up)
            self._kernel.after(seconds, wake_up)

        self._kernel.block(plan)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._pause(self._model.shape.start_s)
            self._execute(self._checkpoint.head())
        except _QueryFailedError as error:
            (self.failure,) = error.args
        except FileExistsError as error:
            self.failure = _report("CONCURRENT_STREAM_LOG_UPDATE", f"Multiple streaming jobs detected for {error}")
        except OSError as error:
            self.failure = _report(type(error).__name__, str(error))
        self.is_active = False
        self._notify()

    def _execute(self, head: Head) -> None:
        if self._must_end:
            return
        self._model.begin(head)
        self.has_triggered = True
        self._notify()
        last = head.newest
        if last is not None and last.number != head.committed and not self._execute_batch(last):
            return
        while self._reach_boundary():
            batch = self._next_batch(last)
            if batch is None:
                if last is not None and last.end == self._model.shape.records:
                    return
                self._pause(self._model.shape.idle_s, between_batches=True)
                continue
            self._checkpoint.log_offsets(batch)
            if not self._execute_batch(batch):
                return
            last = batch

    def _next_batch(self, last: Batch | None) -> Batch | None:
        number, start = (0, 0) if last is None else (last.number + 1, last.end)
        end = min(self._model.available, start + self._model.shape.batch_records)
        return Batch(number, start, end) if end > start else None

    def _reach_boundary(self) -> bool:
        """Wait while the query is held; return whether the next batch may begin."""
        while self._is_held and not self._must_end:
            self._pause(3600.0, between_batches=True)
        return not self._must_end

    def _execute_batch(self, batch: Batch) -> bool:
        """Execute and commit a batch; return False if it was interrupted."""
        began_at = self._kernel.now
        if not self._compute(batch):
            return False
        self._model.write(batch)
        self._checkpoint.commit(batch.number)
        self._model.commit(batch.number)
        self.batches.append(batch)
        self.duration_s = self._kernel.now - began_at
        return True

    def _compute(self, batch: Batch) -> bool:
        while (not (slots := self._slots()) or self._model.stalls) and not self._is_interrupted:
            self._pause(STALL_CHECK_S)
        if not self._is_interrupted:
            shape = self._model.shape
            self._pause(shape.batch_s + (batch.end - batch.start) * shape.record_s / slots)
        if self._model.failures and not self._is_interrupted:
            raise _QueryFailedError(self._model.failures[0])
        return not self._is_interrupted

    def _pause(self, seconds: float, *, between_batches: bool = False) -> None:
        """Block the thread of the query until a request wakes it up, or for a time."""
        if self._is_interrupted:
            return

        def plan(wake_up: Action) -> None:
            self._wake = wake_up
            self._kernel.after(seconds, wake_up)

        self.is_between_batches = between_batches
        if between_batches:
            self._notify()
        self._kernel.block(plan)
        self.is_between_batches = False

    def _notify(self) -> None:
        observers, self._observers = self._observers, []
        for wake_up in observers:
            wake_up()


def _report(error_class: str, message: str) -> FailureReport:
    return FailureReport(error_class=error_class, message=message, causes=(error_class,))
