"""The port `JobStore` over Airflow: the state store of an asset, the XComs of a task, and Airflow's metrics.

An Airflow Asset of the same name represents a job. Its state store contains the control requests (`stores.control_requests`) and the
published documents for programs and for the UI page (`runtime.publishing.documents`). The XComs of the task contain a summary
(`stores.task_xcoms`). The journal of the job is the source of truth for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import Clock, ControlRequests
from airflow_adaptive.runtime.once_logger import OnceLogger
from airflow_adaptive.runtime.publishing.documents import documents
from airflow_adaptive.runtime.publishing.job_view import JobView
from airflow_adaptive.runtime.publishing.time_series import PAGES
from airflow_adaptive.stores.airflow_metrics import AirflowMetrics
from airflow_adaptive.stores.control_requests import ControlRequestReader
from airflow_adaptive.stores.store_access import METRICS_INTERVAL, REQUEST_INTERVAL, BackgroundWriter, StoreAccess
from airflow_adaptive.stores.task_xcoms import TaskKey, xcoms

log = logging.getLogger(__name__)

FINISH_TIMEOUT = timedelta(seconds=30)
"""Longest time that a loop waits for its last write."""


class AirflowJobStore:
    """`JobStore` over the state store of an asset and the XComs of a task. All calls run in threads, which works in every process.

    While few jobs run, the control requests of a job are read every two seconds. If many loops share the access to the stores, the
    requests of a job are read in its turn, or when a change marker names the job.

    No error ends the loop, because a job must not depend on its monitoring or on Airflow's API server.
    """

    def __init__(self, job: str, task: TaskKey, clock: Clock, access: StoreAccess) -> None:
        """Read nothing yet."""
        self._job = job
        self._accessor = AssetStateStoreAccessor(name=job)
        self._task = task
        self._access = access
        self._request_member = access.request_reads.join()
        self._marker: str | None = None
        self._view_writer = BackgroundWriter(self._write_view, access, clock)
        self._metrics_writer = BackgroundWriter(self._write_metrics, access, clock)
        self._metrics_member = access.metrics_writes.join()
        self._pending_metrics: dict[str, Any] = {}
        self._airflow_metrics = AirflowMetrics(job, task.dag_id, task.task_id)
        self._reader = ControlRequestReader(self._accessor)
        self._view: JobView | None = None
        self._pushed: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        self._warnings = OnceLogger(log)

    async def control_requests(self) -> ControlRequests:
        """Return the control requests of the last successful read; read again if a read is due."""
        is_notified = await self._is_notified()
        if self._request_member.due(REQUEST_INTERVAL, urgent=is_notified):
            if is_notified:
                self._reader.read_all_next()
            await self._access.read(lambda: self._log_errors(self._read_requests))
            if self._view is not None and not self._stored:
                self._view_writer.put(self._view)
        return self._reader.requests

    async def publish(self, view: JobView) -> None:
        """Write the changes of a view in the background, and repeat the write until it succeeds."""
        self._view = view
        self._view_writer.put(view)

    async def publish_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the newest job metrics in the background; if many loops share the access to the stores, in the turn of this job."""
        self._pending_metrics |= metrics
        if self._metrics_member.due(METRICS_INTERVAL):
            self._metrics_writer.put(self._pending_metrics)
            self._pending_metrics = {}

    async def published_metrics(self) -> Mapping[str, Any]:
        """Return the pages of job metrics in the store; none if the store cannot be read."""
        pages: dict[str, Any] = {}
        await self._access.read(lambda: self._log_errors(lambda: self._read_pages(pages)))
        return pages

    async def finish(self) -> None:
        """Wait for the last write, at most `FINISH_TIMEOUT`."""
        await self._view_writer.finish(FINISH_TIMEOUT)

    def close(self) -> None:
        """Cancel the writes, and leave the rate limits."""
        self._view_writer.stop()
        self._metrics_writer.stop()
        self._request_member.unregister()
        self._metrics_member.unregister()

    async def _is_notified(self) -> bool:
        """Return whether a new change marker exists; the markers are read only where regular polls are rare."""
        marker = await self._access.change_markers.marker(self._job) if self._access.is_busy else None
        if marker in (None, self._marker):
            return False
        self._marker = marker
        return True

    def _write_view(self, view: JobView) -> bool:
        self._airflow_metrics.send_view(view)
        return self._log_errors(lambda: self._push(view))

    def _log_errors(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # noqa: BLE001  backends of XComs and state stores raise exceptions of any class
            self._warnings.report(f"Airflow's stores cannot be used for {self._task}: {type(error).__name__}: {error}")
            return False
        return True

    def _read_requests(self) -> None:
        if self._reader.read():
            self._stored.clear()

    def _push(self, view: JobView) -> None:
        _write_changes(xcoms(view), self._pushed, self._task.push)
        _write_changes(documents(view, asdict(self._task)), self._stored, self._accessor.set)

    def _write_metrics(self, metrics: Mapping[str, Any]) -> bool:
        self._airflow_metrics.send_metrics(metrics)
        return self._log_errors(lambda: self._store_metrics(metrics))

    def _store_metrics(self, metrics: Mapping[str, Any]) -> None:
        for key, value in metrics.items():
            self._accessor.set(key, value)

    def _read_pages(self, pages: dict[str, Any]) -> None:
        pages.update({key: self._accessor.get(key, {}) for key in PAGES})


def _write_changes(values: Mapping[str, Any], written: dict[str, Any], write: Callable[[str, Any], None]) -> None:
    """Write the values that differ from the values that were written before."""
    for key, value in values.items():
        if key not in written or written[key] != value:
            write(key, value)
            written[key] = value
