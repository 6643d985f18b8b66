"""A job's figures over time: bounded, in three resolutions (an hour by 10 s, eight hours by the minute, three days by 10 minutes).

All of them come from the driver's reports. Each resolution is a page of the mirror; a loop that takes over goes on with the pages
that it finds there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from airflow_adaptive.job.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive.runtime.publishing.documents import DRIVER, METRICS, driver_document
from airflow_adaptive.scheduler.allocator.slot_sharing import minimum_slots, required_slots
from airflow_adaptive.scheduler.state import SchedulerState

FINEST: Final = 10
"""Step of the finest resolution, seconds."""

RESOLUTIONS: Final = {FINEST: 360, 60: 480, 600: 432}
"""Step in seconds -> points kept; a page stays below 40 KB."""

PAGES: Final = tuple(f"{METRICS}{step}" for step in RESOLUTIONS)
"""Keys of the mirror."""


class Point(NamedTuple):
    """The job over one step.

    Attributes:
        at: when the step began, or the point was taken, seconds since the epoch.
        slots: that the plan in force occupies, 0 without one.
        lower: slots that the job can't run without.
        upper: slots that it takes at most.
        input: rows read, per second; None while no driver reports.
        processed: rows that the queries read per second while a batch runs; None without a batch.
        batch_ms: duration of the longest of the newest batches, None without one.
        backlog: rows that wait at the sources, None if no source tells.
        state: of the scheduler, at the end of the step.
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


COLUMNS: Final = Point._fields


@dataclass(frozen=True, slots=True)
class _Count:
    """What a driver had read by then; each counts from zero."""

    driver: str
    at: float
    rows: int


class Gauge:
    """Turns a driver's reports into points."""

    def __init__(self) -> None:
        """Nothing was reported yet."""
        self._before: _Count | None = None

    def read(self, state: SchedulerState, report: DriverStatus | None, now: datetime) -> Point:
        """The job now.

        Args:
            state: of the scheduler.
            report: of the driver of the current epoch, None without one.
            now: the time.
        """
        queries = () if report is None else report.queries
        return Point(
            at=int(now.timestamp()),
            slots=0 if state.plan is None else state.plan.slots,
            lower=minimum_slots(state.job, state.requirements),
            upper=required_slots(state.job, state.requirements),
            input=self._input(report, now.timestamp()),
            processed=sum(_processed(query) for query in queries if query.batch_duration_ms) or None,
            batch_ms=max((query.batch_duration_ms for query in queries), default=0) or None,
            backlog=_total(query.backlog for query in queries),
            state=state.name,
        )

    def _input(self, report: DriverStatus | None, at: float) -> float | None:
        if report is None:
            self._before = None
            return None
        rows = sum(query.input_rows for query in report.queries)
        before, self._before = self._before, _Count(report.nonce, at, rows)
        if before is None or before.driver != report.nonce or at <= before.at or rows < before.rows:
            return None
        return round((rows - before.rows) / (at - before.at), 2)


class JobMetrics:
    """The metrics of one job, as one loop collects them."""

    def __init__(self) -> None:
        """There are no points yet."""
        self._gauge = Gauge()
        self._series = Series()
        self._published_steps = dict.fromkeys(RESOLUTIONS, 0)
        self._newest = 0
        self._status: DriverStatus | None = None

    @property
    def status(self) -> DriverStatus | None:
        """Status of the driver of the current epoch at the newest point, None without one."""
        return self._status

    def restore(self, published: Mapping[str, Any]) -> None:
        """Continue the pages that another loop published."""
        self._series.restore(published)

    def record(self, state: SchedulerState, status: DriverStatus | None, now: datetime) -> None:
        """Add a point; the arguments are those of `Gauge.read`."""
        point = self._gauge.read(state, status, now)
        self._series.add(point)
        self._newest = point.at
        self._status = status

    def changed_documents(self) -> Mapping[str, Any] | None:
        """The documents to publish, None without any: a page changes once in each of its steps."""
        begun = {step: self._newest // step for step in RESOLUTIONS}
        changed = [step for step in RESOLUTIONS if begun[step] != self._published_steps[step]]
        self._published_steps = begun
        if not changed:
            return None
        return {DRIVER: driver_document(self._status)} | {
            f"{METRICS}{step}": self._series.page(step) for step in changed
        }


class Series:
    """The points of a job: the newest step of each resolution grows until the next one begins."""

    def __init__(self) -> None:
        """There is none yet."""
        self._points = {step: deque[Point](maxlen=most) for step, most in RESOLUTIONS.items()}
        self._merged = dict.fromkeys(RESOLUTIONS, 0)

    def add(self, point: Point) -> None:
        """Take up a point; an older one than the newest is late, and dropped."""
        for step, points in self._points.items():
            begun = point._replace(at=point.at - point.at % step)
            if not points or begun.at > points[-1].at:
                points.append(begun)
                self._merged[step] = int(point.input is not None)
            elif begun.at == points[-1].at:
                self._merged[step] += point.input is not None
                points[-1] = _merged(points[-1], begun, self._merged[step])

    def page(self, step: int) -> dict[str, Any]:
        """The page of a resolution: its `step` in seconds, `columns`, and `points` with a value for each."""
        # Lists: Airflow's state store takes no tuple for a JSON value.
        return {"step": step, "columns": [*COLUMNS], "points": [[*point] for point in self._points[step]]}

    def restore(self, pages: Mapping[str, Any]) -> None:
        """Go on with pages that were kept; what is not understood is left out."""
        for step, points in self._points.items():
            points.extend(_points(pages.get(f"{METRICS}{step}")))


def _processed(query: QueryReport) -> float:
    return round(query.batch_rows * 1000 / query.batch_duration_ms, 2)


def _total(backlogs: Iterator[int | None]) -> int | None:
    """Of the queries that tell; None if none does."""
    told = [backlog for backlog in backlogs if backlog is not None]
    return sum(told) if told else None


def _merged(step: Point, point: Point, points: int) -> Point:
    """A step and a point that belongs to it: rates flow together, of the rest the newest or the worst is shown.

    Args:
        step: so far.
        point: that comes on top.
        points: how many of them tell a rate then.
    """
    return point._replace(
        input=_mean(step.input, point.input, points),
        processed=_mean(step.processed, point.processed, points),
        batch_ms=_worst(step.batch_ms, point.batch_ms),
        backlog=_worst(step.backlog, point.backlog),
    )


def _mean(before: float | None, now: float | None, points: int) -> float | None:
    if before is None or now is None:
        return before if now is None else now
    return round(before + (now - before) / max(points, 1), 2)


def _worst(before: int | None, now: int | None) -> int | None:
    return max((value for value in (before, now) if value is not None), default=None)


def _points(page: Any) -> Iterator[Point]:
    """The points of a page that was kept; none of one of another form."""
    try:
        columns, rows = page["columns"], page["points"]
        yield from (Point(**dict(zip(columns, row, strict=True))) for row in rows)
    except (KeyError, TypeError, ValueError):
        return
