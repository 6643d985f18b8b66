"""Job metrics over time, in three resolutions: one hour in steps of 10 s, eight hours in minutes, three days in steps of 10 minutes.

All metrics come from the driver status. Each resolution is a page of bounded size in the store. A loop that takes over continues
the published pages.

Theory: the lag of a job that keeps up is a sawtooth, because a batch reads what arrived before it. Of at least two batches, the least lag tells
whether the job reads what arrives. It grows if more arrives than the job processes, and if no batch is committed while rows wait. A rate tells
neither: no job reads more rows than it processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

from airflow_adaptive._core.protocol.documents import DriverStatus, ExecutorLoad, QueryReport
from airflow_adaptive._core.scheduler.allocator import minimum_slots, required_slots
from airflow_adaptive._core.scheduler.snapshot import decode
from airflow_adaptive._core.scheduler.state import SchedulerState
from airflow_adaptive._core.view import DRIVER, METRICS, driver_document
from airflow_adaptive._engine.directive import most_slots
from airflow_adaptive._engine.observation.source_lag import SourceLag

Number = TypeVar("Number", int, float)

FINEST: Final = 10
"""Step of the finest resolution, seconds."""

RESOLUTIONS: Final = {FINEST: 360, 60: 480, 600: 432}
"""Step in seconds -> number of points; a page stays below 40 KB."""

PAGES: Final = tuple(f"{METRICS}{step}" for step in RESOLUTIONS)
"""Keys of the pages in the store."""


class Point(NamedTuple):
    """The job during one step.

    Attributes:
        at: start of the step, or time of the measurement, seconds since the Unix epoch.
        slots: slots of the newest plan, 0 without a plan.
        lower: slots for the lower bounds of the job.
        upper: slots for the upper bounds of the DAG, or of a user who has set others; the higher bounds of a calendar or a policy count, lower ones do not.
        input: rows read per second; None without a driver status.
        processed: rows processed per second during a batch; None without a batch.
        batch_ms: duration of the newest batch, ms; of several queries, the longest duration. None without a batch.
        backlog: rows that wait at the sources, None if no source counts rows, and while a source does not know its backlog.
        state: name of the scheduler's state at the end of the step.
        lag_s: age of the oldest unread row or file at the sources in seconds, None if no source reports the age, and while a source does not
            know its backlog.
        unread_files: files that wait at the sources, None without a source of files, and while a source does not know its backlog.
        gc: part of the time of the tasks in which the executors collected garbage, 0 to 1; None if no task has run since the last point.
        heap_mb: largest heap that a registered executor has used since its start, MiB; None if unknown.
    """

    at: int
    slots: int
    lower: int
    upper: int
    input: float | None
    processed: float | None
    batch_ms: int | None
    backlog: int | None
    state: str
    lag_s: float | None = None
    unread_files: int | None = None
    gc: float | None = None
    heap_mb: int | None = None


COLUMNS: Final = Point._fields

_TYPES: Final = get_type_hints(Point)


@dataclass(frozen=True, slots=True)
class _Count:
    """Rows that a driver with a nonce had read at a moment, in seconds since the Unix epoch; each driver counts from zero."""

    driver: str
    at: float
    rows: int


class JobMetrics:
    """The metrics of one job, as one loop collects them."""

    def __init__(self) -> None:
        self._before: _Count | None = None
        self._load = ExecutorLoad()
        self._series = Series()
        self._published_steps = dict.fromkeys(RESOLUTIONS, 0)
        self._newest = 0
        self._trigger_s = 0.0
        self.status: DriverStatus | None = None
        """Status of the driver of the current epoch at the newest point, None without one."""

    def restore(self, published: Mapping[str, Any]) -> None:
        """Continue the pages that another loop published."""
        self._series.restore(published)

    def record(
        self,
        state: SchedulerState,
        status: DriverStatus | None,
        lag: SourceLag,
        now: datetime,
        *,
        is_override: bool = False,
    ) -> None:
        """Add the point of this moment. The lag is also known without a driver if the loop polls the brokers.

        `is_override` tells whether a user sets the requirements.
        """
        queries = () if status is None else status.queries
        rows, files = _waiting(queries)
        point = Point(
            at=int(now.timestamp()),
            slots=0 if state.plan is None else state.plan.slots,
            lower=minimum_slots(state.job, state.requirements),
            upper=required_slots(state.job, state.requirements) if is_override else most_slots(state),
            input=self._input(status, now.timestamp()),
            processed=sum(
                round(it.batch_rows * 1000 / it.batch_duration_ms, 2) for it in queries if it.batch_duration_ms
            )
            or None,
            batch_ms=max((query.batch_duration_ms for query in queries), default=0) or None,
            backlog=rows if lag.rows is None else lag.rows,
            state=state.name,
            lag_s=lag.seconds,
            unread_files=files,
            gc=self._gc(status),
            heap_mb=None if status is None or status.load is None else status.load.peak_heap_bytes >> 20 or None,
        )
        self._series.add(point)
        self._newest = point.at
        self._trigger_s = 0.0 if state.trigger_interval is None else state.trigger_interval.total_seconds()
        self.status = status

    def _input(self, status: DriverStatus | None, at: float) -> float | None:
        if status is None:
            self._before = None
            return None
        rows = sum(query.input_rows for query in status.queries)
        before, self._before = self._before, _Count(status.nonce, at, rows)
        if before is None or before.driver != status.nonce or at <= before.at or rows < before.rows:
            return None
        return round((rows - before.rows) / (at - before.at), 2)

    def _gc(self, status: DriverStatus | None) -> float | None:
        """Return the part of the time of the tasks since the last point. The totals decrease when an executor leaves."""
        load = ExecutorLoad() if status is None or status.load is None else status.load
        before, self._load = self._load, load
        task_ms, gc_ms = load.task_ms - before.task_ms, load.gc_ms - before.gc_ms
        return round(min(gc_ms / task_ms, 1.0), 3) if before.task_ms and task_ms > 0 and gc_ms >= 0 else None

    def changed_documents(self) -> Mapping[str, Any] | None:
        """Return the documents to publish, None without any: a page changes once in each of its steps."""
        begun = {step: self._newest // step for step in RESOLUTIONS}
        changed = [step for step in RESOLUTIONS if begun[step] != self._published_steps[step]]
        self._published_steps = begun
        if not changed:
            return None
        return {DRIVER: driver_document(self.status)} | {
            f"{METRICS}{step}": self._series.page(step, self._trigger_s) for step in changed
        }


class Series:
    """The points of a job in all resolutions. The newest step of a resolution changes until the next step begins."""

    def __init__(self) -> None:
        self._points = {step: deque[Point](maxlen=most) for step, most in RESOLUTIONS.items()}
        self._merged = dict.fromkeys(RESOLUTIONS, 0)

    def add(self, point: Point) -> None:
        """Add a point. A point that is older than the newest step is dropped."""
        for step, points in self._points.items():
            begun = point._replace(at=point.at - point.at % step)
            if not points or begun.at > points[-1].at:
                points.append(begun)
                self._merged[step] = int(point.input is not None)
            elif begun.at == points[-1].at:
                self._merged[step] += point.input is not None
                points[-1] = _merged(points[-1], begun, self._merged[step])

    def page(self, step: int, trigger_s: float = 0.0) -> dict[str, Any]:
        """Return the page of a resolution: its `step` in seconds, its `columns`, and its `points` with one value per column.

        The `newest` point, and the `lag_trend` of the finest resolution, come before the other points, so that a list of many jobs reads only the
        begin of each page.
        """
        # Lists, because Airflow's state store does not accept a tuple as a JSON value.
        points = [[*point] for point in self._points[step]]
        newest, trend = points[-1] if points else [], self._lag_trend(trigger_s) if step == FINEST else None
        return {"step": step, "columns": [*COLUMNS], "newest": newest, "lag_trend": trend, "points": points}

    def _lag_trend(self, trigger_s: float) -> str | None:
        points = self._points[FINEST]
        batch_ms = next((point.batch_ms for point in reversed(points) if point.batch_ms), 0)
        trend = lag_trend([(point.at, _lag(point)) for point in points], trigger_s, batch_ms / 1000)
        return None if trend is None else trend.value  # stores accept no other types than those of JSON

    def restore(self, pages: Mapping[str, Any]) -> None:
        """Continue published pages, also after new points were added; invalid pages are ignored."""
        for step, points in self._points.items():
            added = [*points]
            published = _points(pages.get(f"{METRICS}{step}"))
            points.clear()
            points.extend(point for point in published if not added or point.at < added[0].at)
            points.extend(added)


def _lag(point: Point) -> float | None:
    """The lag in seconds: 0 if the sources report no age, and that nothing waits."""
    counts = [count for count in (point.backlog, point.unread_files) if count is not None]
    return 0.0 if point.lag_s is None and counts and not any(counts) else point.lag_s


def _waiting(queries: Sequence[QueryReport]) -> tuple[int | None, int | None]:
    """Return the rows and the files that wait. Both are unknown while one source does not know its backlog."""
    sources = [source for query in queries for source in query.sources]
    if any(source.is_backlog_unknown for source in sources):
        return None, None
    rows = [query.backlog for query in queries if not query.sources] + [source.lag_rows for source in sources]
    return _sum(rows), _sum([source.unread_files for source in sources])


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _merged(step: Point, point: Point, points: int) -> Point:
    """Merge a point into its step: rates are averaged; of the other values the step keeps the newest or the worst.

    `points` is the number of merged points that have a rate, including this point.
    """
    return point._replace(
        input=_mean(step.input, point.input, points),
        processed=_mean(step.processed, point.processed, points),
        batch_ms=_worst(step.batch_ms, point.batch_ms),
        backlog=_worst(step.backlog, point.backlog),
        lag_s=_worst(step.lag_s, point.lag_s),
        unread_files=_worst(step.unread_files, point.unread_files),
        gc=_worst(step.gc, point.gc),
        heap_mb=_worst(step.heap_mb, point.heap_mb),
    )


def _mean(before: float | None, now: float | None, points: int) -> float | None:
    if before is None or now is None:
        return before if now is None else now
    return round(before + (now - before) / max(points, 1), 2)


def _worst(before: Number | None, now: Number | None) -> Number | None:
    if before is None or now is None:
        return before if now is None else now
    return max(before, now)


def _points(page: Any) -> list[Point]:
    """The points of a published page; none if the page is invalid. The store may contain anything."""
    try:
        rows = [dict(zip(page["columns"], row, strict=True)) for row in page["points"]]
        return [Point(**{name: decode(_TYPES[name], value) for name, value in row.items()}) for row in rows]
    except (LookupError, TypeError, ValueError):
        return []


# ---- the trend of the lag -------------------------------------------------------------------------------------------


class LagTrend(StrEnum):
    """How the least lag of a job changes."""

    SHORT = "short"
    """The newest batches have read what had arrived, but for what arrives during two batches or a minute."""
    STEADY = "steady"
    """The lag is longer, and neither grows nor shrinks."""
    GROWS = "grows"
    SHRINKS = "shrinks"


SHORT_S: Final = 60.0
"""A lag up to this one is short, seconds."""

WINDOW_S: Final = 150
"""Shortest window: two windows are five minutes."""

LONG_WINDOW_S: Final = 1500
"""Two of these windows are in the finest resolution of the metrics, which covers an hour."""

FAST: Final = 0.1
SLOW: Final = 0.03
"""Growth of the lag in the window, and in the long window, per second: a job that processes 90 %, or 97 %, of what arrives."""


def lag_trend(lags: Sequence[tuple[int, float | None]], trigger_s: float, batch_s: float) -> LagTrend | None:
    """Return how the lag of a job changes, None if that is unknown.

    Args:
        lags: time in seconds, and lag in seconds or None while it is unknown; the oldest first.
        trigger_s: trigger interval, 0 without one.
        batch_s: duration of the newest batch.
    """
    if not lags or lags[-1][1] is None:
        return None
    now, period = lags[-1][0], max(trigger_s, batch_s)
    window = max(WINDOW_S, 2 * period)
    least = _least(lags, now - window, now)
    if least is not None and least <= max(SHORT_S, 2 * trigger_s):
        return LagTrend.SHORT
    trend = None
    for length, rate in ((window, FAST), (LONG_WINDOW_S, SLOW)):
        before, after = _least(lags, now - 2 * length, now - length), _least(lags, now - length, now)
        if length < window or lags[0][0] > now - 2 * length or before is None or after is None:
            continue
        if abs(after - before) >= rate * length:
            return LagTrend.GROWS if after > before else LagTrend.SHRINKS
        trend = LagTrend.STEADY if after > 2 * period else LagTrend.SHORT
    return trend


def _least(lags: Sequence[tuple[int, float | None]], begin: float, end: float) -> float | None:
    return min((lag for at, lag in lags if begin < at <= end and lag is not None), default=None)
