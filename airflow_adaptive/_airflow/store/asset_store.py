"""The port `JobStore` over Airflow: the state store of an asset, the XComs of a task, and Airflow's metrics.

An Airflow Asset represents a job (`_airflow.store.job_asset`). Its state store contains the control requests (`_airflow.store.control_requests`) and the
published documents for programs and for the UI page (`_core.view`). The XComs of the task contain a summary
(`_airflow.store.task_xcoms`). The journal of the job is the source of truth for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

from airflow_adaptive._airflow.store.airflow_metrics import AirflowMetrics
from airflow_adaptive._airflow.store.control_requests import ControlRequestReader
from airflow_adaptive._airflow.store.job_asset import job_asset, record, recorded
from airflow_adaptive._airflow.store.storable import storable
from airflow_adaptive._airflow.store.store_access import (
    AIRFLOW,
    CHECK_AIRFLOW,
    METRICS_INTERVAL,
    REQUEST_INTERVAL,
    RETRY_INTERVAL,
    BackgroundWriter,
    StoreAccess,
)
from airflow_adaptive._airflow.store.task_xcoms import ATTEMPT, XCOM_ATTEMPT, pull, push, xcoms
from airflow_adaptive._core.ports import Clock
from airflow_adaptive._core.requirements.control_requests import CALENDAR, ControlRequests
from airflow_adaptive._core.view import JobView, TaskKey, documents
from airflow_adaptive._engine.once_logger import OnceLogger
from airflow_adaptive._engine.publishing.time_series import PAGES

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FIRST_READ_TIMEOUT = timedelta(seconds=5)
"""Longest time that a new loop waits for the control requests."""

FINISH_TIMEOUT = timedelta(seconds=30)
"""Longest time that a loop waits for its last write."""

LATE_TIMEOUT = timedelta(hours=1)
"""Longest time during which the end of a job is written in the background, after the task has continued."""

LATE_WRITE: Final = "late_write"
"""Key of a random value. A loop that has ended stores a new value after a write that hung: the loop of the job, which may run in another process,
then writes all of its values again. The value is read together with the calendar."""


class AirflowJobStore:
    """`JobStore` over the state store of an asset and the XComs of a task. All calls run in threads, which works in every process.

    While few jobs run, the control requests of a job are read every half second, also between two cycles of the loop. If many loops share the access to
    the stores, the requests of a job are read in its turn, or when a change marker names the job. All reads and writes run in the background, so a
    store that hangs delays no loop.

    No error ends the loop, because a job must not depend on its monitoring or on Airflow's API server.
    """

    def __init__(self, job: str, task: TaskKey, clock: Clock, access: StoreAccess) -> None:
        self.hint: Callable[[], object] | None = None
        """Called when new control requests were read; None to read them only when a cycle requests them."""
        self._between_cycles: asyncio.Task[None] | None = None
        self._job = job
        self._asset = job_asset(job)
        self._accessor = self._asset.store_of(task)
        self._task = task
        self._access = access
        self._clock = clock
        self._request_member = access.request_reads.join()
        self._marker: str | None = None
        self._is_notified = False
        self._is_moved = False
        self._reading: asyncio.Task[None] | None = None
        self._read_s = clock.elapsed
        self._view_writer = BackgroundWriter(self._write_view, clock)
        self._metrics_writer = BackgroundWriter(self._write_metrics, clock)
        self._metrics_member = access.metrics_writes.join()
        self._pending_metrics: dict[str, Any] = {}
        self._airflow_metrics = AirflowMetrics(job, task.dag_id, task.task_id)
        self._reader = ControlRequestReader(self._accessor)
        self._view: JobView | None = None
        self._pushed: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        self._late_write = access.late_writes.get(self._job)
        self._known_late_write: Any = None
        self._is_late = self._is_closed = False
        self._warnings = OnceLogger(log)

    async def control_requests(self) -> ControlRequests:
        """Return the newest known control requests and their age. A read that is due runs in the background.

        The first call waits for its read at most `FIRST_READ_TIMEOUT`, because a job that is to stop must not start first.
        """
        self._is_notified = self._is_notified or self._has_new_marker()
        is_reading = self._reading is not None and not self._reading.done()
        if not is_reading and self._request_member.due(REQUEST_INTERVAL, urgent=self._is_notified):
            is_first, self._reading = self._reading is None, asyncio.create_task(self._read_requests())
            if is_first:
                await asyncio.wait({self._reading}, timeout=FIRST_READ_TIMEOUT.total_seconds())
        if self._view is not None and self._has_late_write():
            self._view_writer.put(self._view)
        if self.hint is not None and self._between_cycles is None:
            self._between_cycles = asyncio.create_task(self._read_between_cycles())
        return replace(self._reader.requests, age=timedelta(seconds=self._clock.elapsed - self._read_s))

    async def publish(self, view: JobView) -> None:
        """Write the changes of a view in the background, and repeat the write until it succeeds."""
        self._view = view
        self._view_writer.put(view)

    async def publish_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the newest job metrics in the background; if many loops share the access to the stores, in the turn of this job.

        `metrics` contains only the documents that changed, so a document stays pending until a write of it has succeeded.
        """
        self._pending_metrics |= metrics
        if self._metrics_member.due(METRICS_INTERVAL):
            self._metrics_writer.put(dict(self._pending_metrics))

    async def published_metrics(self) -> Mapping[str, Any]:
        """Return the pages of job metrics in the store. The call waits until the store can be read."""

        def read() -> dict[str, Any]:
            return {key: self._accessor.get(key, {}) for key in PAGES}

        while (pages := await self._attempt(self._access.read(read, urgent=False))) is None:
            await self._clock.sleep(RETRY_INTERVAL.total_seconds())
        return pages

    async def finish(self) -> None:
        """Wait for the last write, at most `FINISH_TIMEOUT`. `publish_end` continues the write of the end of the job."""
        await self._view_writer.finish(FINISH_TIMEOUT)
        self._is_late = self._view_writer.is_writing and self._view is not None and self._view.outcome is not None

    def close(self) -> None:
        """Cancel reads and writes, and leave the rate limits. A write that hangs in its thread writes nothing more.

        The write of the end of a job after `finish` is not canceled.
        """
        if not self._is_late:
            self._is_closed = True
            self._view_writer.stop()
        self._report_late_write()
        for task in filter(None, (self._reading, self._between_cycles)):
            task.cancel()
        self._metrics_writer.stop()
        self._request_member.unregister()
        self._metrics_member.unregister()

    async def publish_end(self) -> None:
        """Continue the write of the end of the job after `close`, at most `LATE_TIMEOUT`, until it succeeds or another attempt runs the job."""
        if not self._is_late:
            return
        try:
            await self._view_writer.finish(LATE_TIMEOUT)
            if self._view_writer.is_writing:
                log.warning(
                    "The history and the XComs of job %s lack its end: %s does not serve %s",
                    self._job,
                    AIRFLOW,
                    self._task,
                )
        finally:
            self._is_closed = True
            self._view_writer.stop()

    async def _read_between_cycles(self) -> None:
        """Read the control requests between two cycles, too. While many jobs run, only the cycles read."""
        while True:
            await self._clock.sleep((RETRY_INTERVAL if self._access.is_busy else REQUEST_INTERVAL).total_seconds())
            if not self._access.is_busy:
                await self.control_requests()

    def _has_new_marker(self) -> bool:
        """Return whether a new change marker exists; the markers are read only where regular polls are rare."""
        marker = self._access.change_markers.marker(self._job) if self._access.is_busy else None
        if marker in (None, self._marker):
            return False
        self._marker = marker
        return True

    async def _read_requests(self) -> None:
        """Read the control requests. If Airflow has emptied the store, also publish the newest view again."""
        began_s, is_urgent, self._is_notified = self._clock.elapsed, self._is_notified, False
        keys = self._reader.next_keys(every=is_urgent)
        read = partial(self._read_store, keys, check_late_write=not is_urgent and CALENDAR in keys)
        found = await self._attempt(self._access.read(read))
        if found is None:
            return
        (documents, is_emptied), late_write = found
        known = self._reader.requests
        self._reader.accept(documents)
        if self.hint is not None and self._reader.requests != known:
            self.hint()
        if late_write != self._known_late_write:
            self._known_late_write = late_write
            self._report_late_write()
        self._read_s = began_s
        if is_emptied:
            self._stored = {}
            if self._view is not None:
                self._view_writer.put(self._view)

    def _read_store(self, keys: tuple[str, ...], *, check_late_write: bool) -> tuple[tuple[dict[str, Any], bool], Any]:
        """Read the control requests, and the value of `LATE_WRITE` if required."""
        if not self._is_moved:  # An earlier version of Airflow may have run the job.
            self._asset.move_into_state_store()
            self._is_moved = True
        late_write = self._accessor.get(LATE_WRITE) if check_late_write else self._known_late_write
        return self._reader.read(keys), late_write

    def _report_late_write(self) -> None:
        """Let the loop of the job in this process write all values again."""
        self._access.late_writes[self._job] = object()

    def _has_late_write(self) -> bool:
        """Return whether a late write may have overwritten values of this loop."""
        return self._access.late_writes.get(self._job) is not self._late_write

    async def _write_view(self, view: JobView) -> bool:
        if self._has_late_write():
            self._late_write = self._access.late_writes.get(self._job)
            self._pushed, self._stored = {}, {}
        write = partial(self._push, view, self._pushed, self._stored)
        # If many jobs end at once, the states of those that run come first, and the metrics last.
        is_written = await self._attempt(self._access.write(write, urgent=view.outcome is None))
        if is_written is None:  # The write may continue in its thread, with the previous records of what is written.
            self._pushed, self._stored = dict(self._pushed), dict(self._stored)
        return is_written is not None

    async def _attempt(self, operation: Awaitable[Result]) -> Result | None:
        """Return the result of an operation, None if the operation failed."""
        try:
            return await operation
        except Exception as error:  # noqa: BLE001  backends of XComs and state stores raise exceptions of any class
            self._warnings.report(
                f"{AIRFLOW} does not serve {self._task}: {CHECK_AIRFLOW}, with the newest known requests. Its state is published when they "
                f"answer again: {type(error).__name__}: {error}"
            )
            return None

    def _push(self, view: JobView, pushed: dict[str, Any], stored: dict[str, Any]) -> bool:
        def is_abandoned() -> bool:
            return self._is_closed or pushed is not self._pushed

        if is_abandoned() or self._is_superseded(view):
            return True
        self._airflow_metrics.send_view(view)
        try:
            # A downgrade of Airflow loses the record, without which the API server finds no published document before Airflow 3.3.
            if not stored and recorded(self._job, ATTEMPT) is None:
                record(self._job, ATTEMPT, view.attempt)
            # The task instance of a mapped task may run another job by now.
            if self._task.map_index < 0 or pull(self._task, XCOM_ATTEMPT) in (None, view.attempt):
                _write_changes(xcoms(view), pushed, partial(push, self._task), is_abandoned)
            _write_changes(documents(view, asdict(self._task)), stored, self._accessor.set, is_abandoned)
        finally:
            if is_abandoned():
                self._report_late_write()
            if self._is_closed or self._is_superseded(view):
                self._announce_late_write()
        return True

    def _is_superseded(self, view: JobView) -> bool:
        """Return whether another attempt runs the job, whose end this loop publishes after the end of its task; blocks."""
        return self._is_late and recorded(self._job, ATTEMPT) not in (None, view.attempt)

    def _announce_late_write(self) -> None:
        """Let the loop of the job in another process write all values again."""
        try:
            self._accessor.set(LATE_WRITE, uuid4().hex)
        except Exception as error:  # noqa: BLE001  backends of state stores raise exceptions of any class
            log.warning("%s may show old values until they change: %s: %s", self._task, type(error).__name__, error)

    async def _write_metrics(self, metrics: Mapping[str, Any]) -> bool:
        is_written = (
            await self._attempt(self._access.write(partial(self._store_metrics, metrics), urgent=False)) is not None
        )
        if is_written:
            pending = self._pending_metrics.items()
            self._pending_metrics = {key: value for key, value in pending if metrics.get(key) is not value}
        return is_written

    def _store_metrics(self, metrics: Mapping[str, Any]) -> bool:
        self._airflow_metrics.send_metrics(metrics)
        for key, value in metrics.items():
            if not self._is_closed:
                self._accessor.set(key, value)
        return True


def _write_changes(
    values: Mapping[str, Any],
    written: dict[str, Any],
    write: Callable[[str, Any], None],
    is_abandoned: Callable[[], bool],
) -> None:
    """Write the values that differ from the values that were written before. A write that took too long writes nothing more."""
    for key, value in values.items():
        if not is_abandoned() and (key not in written or written[key] != value):
            write(key, storable(value))
            written[key] = value
