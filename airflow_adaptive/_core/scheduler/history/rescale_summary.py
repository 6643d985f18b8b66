"""Statistics of rescales: numbers, results and durations (Flink: RescalesSummary)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from airflow_adaptive._core.scheduler.timeline import Rescale, TerminalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Minimum, maximum, average and percentiles of durations."""

    min: timedelta
    max: timedelta
    avg: timedelta
    p50: timedelta
    p90: timedelta
    p95: timedelta
    p99: timedelta
    p999: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleSummary:
    """Statistics of rescales. Statistics of durations are None without a rescale of their kind.

    Attributes:
        total: number of rescales.
        completed: number of rescales whose plan became active.
        ignored: number of rescales that ended for another reason without a failure.
        failed: number of rescales that failed.
        in_progress: number of rescales in progress, at most one.
        duration: durations of all rescales that have ended.
        completed_duration: durations of the completed rescales.
        ignored_duration: durations of the ignored rescales.
        failed_duration: durations of the failed rescales.
        downtime: measured downtimes of the completed rescales.
    """

    total: int
    completed: int
    ignored: int
    failed: int
    in_progress: int
    duration: Durations | None
    completed_duration: Durations | None
    ignored_duration: Durations | None
    failed_duration: Durations | None
    downtime: Durations | None


def summarize(rescales: Iterable[Rescale]) -> RescaleSummary:
    """Return the statistics of these rescales; the order does not matter."""
    durations: dict[TerminalState, list[timedelta]] = {state: [] for state in TerminalState}
    downtimes: list[timedelta] = []
    in_progress = 0
    for rescale in rescales:
        if rescale.end is None or rescale.terminal_state is None:
            in_progress += 1
            continue
        durations[rescale.terminal_state].append(rescale.end - rescale.start)
        if rescale.terminal_state is TerminalState.COMPLETED and rescale.downtime is not None:
            downtimes.append(rescale.downtime)
    completed, ignored, failed = (
        durations[state] for state in (TerminalState.COMPLETED, TerminalState.IGNORED, TerminalState.FAILED)
    )
    return RescaleSummary(
        total=len(completed) + len(ignored) + len(failed) + in_progress,
        completed=len(completed),
        ignored=len(ignored),
        failed=len(failed),
        in_progress=in_progress,
        duration=_durations(completed + ignored + failed),
        completed_duration=_durations(completed),
        ignored_duration=_durations(ignored),
        failed_duration=_durations(failed),
        downtime=_durations(downtimes),
    )


def _durations(durations: list[timedelta]) -> Durations | None:
    if not durations:
        return None
    ordered = sorted(durations)
    return Durations(
        min=ordered[0],
        max=ordered[-1],
        avg=sum(ordered, timedelta(0)) / len(ordered),
        p50=_quantile(ordered, 0.5),
        p90=_quantile(ordered, 0.9),
        p95=_quantile(ordered, 0.95),
        p99=_quantile(ordered, 0.99),
        p999=_quantile(ordered, 0.999),
    )


def _quantile(ordered: list[timedelta], share: float) -> timedelta:
    """Return a quantile as in Flink (commons-math, the method of NIST): interpolated at the position `share` * (n + 1).

    Args:
        ordered: durations in ascending order, at least one.
        share: quantile, from 0.5 to 1.
    """
    position = share * (len(ordered) + 1)
    below = math.floor(position)
    if below >= len(ordered):
        return ordered[-1]
    lower, upper = ordered[below - 1], ordered[below]
    return lower + (position - below) * (upper - lower)
