"""Airflow as the place where people leave wishes and look at jobs: asset state store and XComs (port `JobStore`).

A job is an Airflow Asset of the same name. Its state store holds the control requests (`stores.control_requests`) and shows programs and
the page what the job does (`runtime.publishing.documents`); the task's XComs show it in short. None of it is the truth: that is the job's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk.execution_time.context import AssetStateStoreAccessor

from airflow_adaptive.ports import Clock, ControlRequests
from airflow_adaptive.runtime.publishing.documents import documents
from airflow_adaptive.runtime.publishing.time_series import PAGES
from airflow_adaptive.stores.airflow_metrics import Telemetry
from airflow_adaptive.stores.control_requests import ControlRequestReader
from airflow_adaptive.stores.store_access import FIGURES_INTERVAL, INBOX_INTERVAL, Mirror, StoreTraffic
from airflow_adaptive.stores.task_xcoms import TaskKey, xcoms

log = logging.getLogger(__name__)

LAST_WORDS = timedelta(seconds=30)
"""How long a loop that has ended waits until people have been shown so."""


class AirflowJobStore:
    """`JobStore` over an asset's state store and a task's XComs; all calls run in threads, which works everywhere.

    While few jobs run, an inbox is read every two seconds; where many share the way to the stores, in turn with the others'
    or when the signal says that it has something new.

    Nothing that goes wrong here ends a loop: a job must not depend on who watches it, nor on Airflow's API server.
    """

    def __init__(self, job: str, task: TaskKey, clock: Clock, traffic: StoreTraffic) -> None:
        """Take note; nothing is read yet."""
        self._job = job
        self._accessor = AssetStateStoreAccessor(name=job)
        self._task = task
        self._clock = clock
        self._traffic = traffic
        self._turn = traffic.inboxes.join()
        self._marker: str | None = None
        self._mirror = Mirror(self._show, traffic, clock)
        self._measures = Mirror(self._show_figures, traffic, clock)
        self._measures_turn = traffic.figures.join()
        self._unmeasured: dict[str, Any] = {}
        self._telemetry = Telemetry(job, task.dag_id, task.task_id)
        self._reader = ControlRequestReader(self._accessor)
        self._view: Mapping[str, Any] | None = None
        self._pushed: dict[str, Any] = {}
        self._shown: dict[str, Any] = {}
        self._last_warning: str | None = None

    async def control_requests(self) -> ControlRequests:
        """Return the control requests of the last successful read; read again if a read is due."""
        is_notified = await self._is_notified()
        if self._turn.due(self._clock.now(), INBOX_INTERVAL, at_once=is_notified):
            if is_notified:
                self._reader.read_all_next()
            await self._traffic.read(lambda: self._carefully(self._read_requests))
            if self._view is not None and not self._shown:
                self._mirror.publish(self._view)
        return self._reader.requests

    async def publish(self, view: Mapping[str, Any]) -> None:
        """Push as XComs what has changed, in the background and until it succeeds."""
        self._view = view
        self._mirror.publish(view)

    async def measure(self, figures: Mapping[str, Any]) -> None:
        """Show the newest figures in the background; where many jobs share the way to the store, when it is this one's turn."""
        self._unmeasured |= figures
        if self._measures_turn.due(self._clock.now(), FIGURES_INTERVAL):
            self._measures.publish(self._unmeasured)
            self._unmeasured = {}

    async def figures(self) -> Mapping[str, Any]:
        """The pages that are in the store; none if they can't be read."""
        found: dict[str, Any] = {}
        await self._traffic.read(lambda: self._carefully(lambda: self._recall(found)))
        return found

    async def finish(self) -> None:
        """Wait until everything is pushed, for a while."""
        await self._mirror.finish(LAST_WORDS)

    def close(self) -> None:
        """Push and read no more."""
        self._mirror.stop()
        self._measures.stop()
        self._turn.leave()
        self._measures_turn.leave()

    async def _is_notified(self) -> bool:
        """Return whether a new change marker exists; the markers are read only where regular polls are rare."""
        marker = await self._traffic.change_markers.marker(self._job) if self._traffic.busy else None
        if marker in (None, self._marker):
            return False
        self._marker = marker
        return True

    def _show(self, view: Mapping[str, Any]) -> bool:
        self._telemetry.show(view)
        return self._carefully(lambda: self._push(view))

    def _carefully(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # noqa: BLE001  backends of XComs and state stores raise what they like
            self._warn_once(f"Airflow's stores can't be used now for {self._task}: {type(error).__name__}: {error}")
            return False
        return True

    def _read_requests(self) -> None:
        if self._reader.read():
            self._shown.clear()

    def _push(self, view: Mapping[str, Any]) -> None:
        for key, value in xcoms(view).items():
            if key not in self._pushed or self._pushed[key] != value:
                self._task.push(key, value)
                self._pushed[key] = value
        for key, value in documents(view, asdict(self._task)).items():
            if key not in self._shown or self._shown[key] != value:
                self._accessor.set(key, value)
                self._shown[key] = value

    def _show_figures(self, figures: Mapping[str, Any]) -> bool:
        self._telemetry.measure(figures)
        return self._carefully(lambda: self._measure(figures))

    def _measure(self, figures: Mapping[str, Any]) -> None:
        for key, value in figures.items():
            self._accessor.set(key, value)

    def _recall(self, found: dict[str, Any]) -> None:
        found.update({key: self._accessor.get(key, {}) for key in PAGES})

    def _warn_once(self, text: str) -> None:
        """Warn; a complaint that repeats with every look is made once."""
        if text != self._last_warning:
            log.warning("%s", text)
            self._last_warning = text
