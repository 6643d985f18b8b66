"""A driver's reports as figures of its queries, for a rescale policy: what came in, what it cost, what waits.

A report tells of the newest batch. That no row comes in any more, and for how long a batch has been running, shows only in what
stays the same from one look to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from airflow_adaptive.job.protocol.documents import DriverStatus, QueryReport
from airflow_adaptive.runtime.requirements.advice import QueryMetrics
from airflow_adaptive.scheduler.job_graph import JobGraph

QUIET: Final = timedelta(seconds=3)
"""A query between two batches is quiet if for longer than this, and one and a half triggers, none has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pulse:
    """What is remembered of a query.

    Attributes:
        epoch: of the driver.
        committed: batches, as counted by the driver.
        at: when this count was seen first.
        running: since when a batch was seen to run, None if none does.
        quiet: whether rows have stopped coming in since that batch.
    """

    epoch: int
    committed: int
    at: datetime
    running: datetime | None = None
    quiet: bool = False


class QueryGauge:
    """Turns the reports of the drivers of one job into figures, look by look."""

    def __init__(self) -> None:
        """Nothing was reported yet."""
        self._pulses: dict[str, _Pulse] = {}
        self._newest: tuple[int, int] | None = None
        self._figures: Mapping[str, QueryMetrics] = {}

    def read(self, graph: JobGraph, report: DriverStatus | None, now: datetime) -> Mapping[str, QueryMetrics]:
        """Figures by name of query; of those that run.

        Args:
            graph: of the job.
            report: of the driver of the current epoch, None without one.
            now: the time.
        """
        if report is None:
            return {}
        if (report.epoch, report.sequence) != self._newest:
            self._newest = (report.epoch, report.sequence)
            self._figures = dict(self._read(graph, report, now))
        return self._figures

    def _read(self, graph: JobGraph, report: DriverStatus, now: datetime) -> Iterator[tuple[str, QueryMetrics]]:
        for query in report.queries:
            if query.active:
                pulse = _felt(self._pulses.get(query.name), query, report.epoch, now)
                self._pulses[query.name] = pulse
                vertices = _vertices(graph, query.name, len(report.queries))
                figures = _quiet(query) if pulse.quiet else _busy(query)
                running = None if pulse.running is None else (now - pulse.running) / timedelta(milliseconds=1)
                yield (
                    query.name,
                    replace(figures, vertices=vertices, epoch=report.epoch, sequence=report.sequence, running=running),
                )


def state_partitions(graph: JobGraph, queries: Mapping[str, QueryMetrics]) -> Mapping[str, int]:
    """Partitions of the state by query: those of its slot sharing group."""
    by_vertex = {
        vertex.name: graph.state_partitions[name] for name, vertices in graph.groups.items() for vertex in vertices
    }
    return {
        name: max((by_vertex[vertex] for vertex in figures.vertices), default=1) for name, figures in queries.items()
    }


def _felt(before: _Pulse | None, query: QueryReport, epoch: int, now: datetime) -> _Pulse:
    if before is None or (before.epoch, before.committed) != (epoch, query.committed):
        return _Pulse(epoch=epoch, committed=query.committed, at=now, running=None if query.idle else now)
    if not query.idle:
        # It may only be asking its sources for rows.
        return replace(before, running=before.running or now)
    trigger = timedelta(milliseconds=min(query.trigger_interval_ms or 0, 1e12))
    return replace(before, running=None, quiet=now - before.at > QUIET + 1.5 * trigger)


def _vertices(graph: JobGraph, query: str, queries: int) -> tuple[str, ...]:
    """Vertices of a query: its slot sharing group's, or all of a job that has one query or one group."""
    groups = graph.groups
    if query in groups:
        return tuple(vertex.name for vertex in groups[query])
    if query in graph.max_parallelism:
        return (query,)
    return tuple(graph.max_parallelism) if queries == 1 or len(groups) == 1 else ()


def _busy(query: QueryReport) -> QueryMetrics:
    duration, trigger = query.batch_duration_ms, query.trigger_interval_ms
    measured = query.committed > 0
    return QueryMetrics(
        vertices=(),
        input_rate=query.input_rate,
        busy_rate=_rate(query) if measured else None,
        backlog=query.backlog,
        busy=min(1.0, duration / (trigger or duration or 1)) if measured else None,
        batch_duration=duration if measured else None,
        trigger_interval=trigger,
        epoch=0,
        sequence=0,
    )


def _quiet(query: QueryReport) -> QueryMetrics:
    """No row comes in, and if its sources tell how many wait, none does: it would be reading them."""
    return QueryMetrics(
        vertices=(),
        input_rate=0.0,
        busy_rate=0.0,
        backlog=None if query.backlog is None else 0.0,
        busy=0.0,
        batch_duration=0.0,
        trigger_interval=query.trigger_interval_ms,
        epoch=0,
        sequence=0,
    )


def _rate(query: QueryReport) -> float:
    return query.batch_rows * 1000 / query.batch_duration_ms if query.batch_duration_ms > 0 else 0.0
