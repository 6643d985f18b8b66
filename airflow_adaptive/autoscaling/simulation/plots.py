"""Plots of simulation runs over time, if matplotlib is installed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.autoscaling.simulation.environment import Run
from airflow_adaptive.autoscaling.simulation.report import SimulationMetrics, slots_for
from airflow_adaptive.autoscaling.simulation.simulated_query import QueryModel
from airflow_adaptive.autoscaling.simulation.trace import Trace

HELD = "slots held"
NEEDED = "slots that the load requires"
SHORT = "too few"
LAG = "lag: age of the oldest row at its commit"

COLORS = {HELD: "#0072b2", NEEDED: "#c8c8c8", SHORT: "#d55e00", LAG: "#333333"}
"""Distinguishable with any color vision and in print (Okabe and Ito, Color Universal Design)."""

MOST_POINTS = 1000
"""Maximum number of points of a line; a point shows the largest lag of its batches."""

_TITLE: Mapping[str, Any] = {"loc": "left", "fontsize": 10}

LEAST_LAG = 1.0
"""Begin of the logarithmic lag axis, in seconds; a batch without rows has no lag."""


def require() -> Any:
    """Return the module `matplotlib.figure`, which needs no display.

    Raises:
        RescalePolicyError: matplotlib is not installed.
    """
    try:
        return import_module("matplotlib.figure")
    except ImportError as error:
        fix = "matplotlib is not installed: pip install 'airflow-adaptive[plots]', or remove --plot"
        raise RescalePolicyError("plot", [fix]) from error


def draw(path: Path, trace: Trace, query: QueryModel, rows: Sequence[tuple[SimulationMetrics, Run]]) -> None:
    """Write the plot of the runs to a file.

    Raises:
        RescalePolicyError: matplotlib is missing, or the file cannot be written.
    """
    figure = picture(trace, query, rows)
    try:
        figure.savefig(path, dpi=110)
    except (OSError, ValueError) as error:
        raise RescalePolicyError(f"{path}", [f"cannot be written: {error}"]) from error


def picture(trace: Trace, query: QueryModel, rows: Sequence[tuple[SimulationMetrics, Run]]) -> Any:
    """Return a matplotlib figure with two panels for each run: required and held slots, and the lag.

    All panels of a column have the same axes, so that runs can be compared.

    Raises:
        RescalePolicyError: matplotlib is missing.
    """
    figure = require().Figure(figsize=(13, 1.4 + 1.55 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2, sharex=True, sharey="col", squeeze=False, width_ratios=(3, 2))
    for (slots, lag), (row, run) in zip(axes, rows, strict=True):
        _draw_slots(slots, trace, query, run)
        _draw_lag(lag, trace, run)
        slots.set_title(f"{row.name}: {row.slot_hours:.0f} slot-hours, {_count(row.rescales, 'rescale')}", **_TITLE)
        lag.set_title(f"p99 lag {row.p99_lag:.1f} s, max {row.max_lag:.1f} s", **_TITLE)
    _label(figure, axes, trace)
    return figure


def _draw_slots(axis: Any, trace: Trace, query: QueryModel, run: Run) -> None:
    changes = run.held[1:] or run.held  # the policy does not choose the slots before the first executors have started
    instants = [*sorted({*trace.times, *(at for at, _ in changes)} - {run.end}), run.end]
    needs = [(at, slots_for(query, rate)) for at, rate in zip(trace.times, trace.rates, strict=False)]
    needed, held = list(_values(needs, instants)), list(_values(changes, instants))
    times = _times(trace, instants)
    filled = {"step": "post", "linewidth": 0}
    axis.fill_between(times, needed, color=COLORS[NEEDED], label=NEEDED, **filled)
    axis.fill_between(times, list(map(min, needed, held)), needed, color=COLORS[SHORT], label=SHORT, **filled)
    axis.step(times, held, where="post", color=COLORS[HELD], linewidth=1.2, label=HELD)


def _draw_lag(axis: Any, trace: Trace, run: Run) -> None:
    found = list(_peaks(list(accumulate(run.batches.spans)), run.batches.lags))
    lags = [max(LEAST_LAG, lag) for _, lag in found]
    axis.plot(_times(trace, [at for at, _ in found]), lags, color=COLORS[LAG], linewidth=0.8, label=LAG)
    axis.set_yscale("log")


def _label(figure: Any, axes: Any, trace: Trace) -> None:
    dates = import_module("matplotlib.dates")
    for slots, lag in axes:
        slots.set_ylabel("slots")
        lag.set_ylabel("lag (seconds)")
        lag.yaxis.set_major_formatter("{x:,g}")
    for axis in axes.flat:
        axis.grid(alpha=0.3, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylim(bottom=0)
    axes[0, 1].set_ylim(bottom=LEAST_LAG)
    axes[0, 0].set_xlim(*_times(trace, [0.0, trace.duration]))
    for axis in axes[-1]:
        axis.set_xlabel("time (UTC)")
        locator = dates.AutoDateLocator(minticks=3, maxticks=8)
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    handles = [handle for axis in axes[0] for handle in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def _values(changes: Sequence[tuple[float, int]], instants: Sequence[float]) -> Iterator[int]:
    """Return the value at each instant; before the first change, the value of the first change."""
    begins = [at for at, _ in changes]
    return (changes[max(0, bisect_right(begins, at) - 1)][1] for at in instants)


def _peaks(times: Sequence[float], lags: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield times and lags, reduced to the maxima of neighboring points."""
    size = -(-len(lags) // MOST_POINTS)
    for begin in range(0, len(lags), max(1, size)):
        at = max(range(begin, min(begin + size, len(lags))), key=lags.__getitem__)
        yield times[at], lags[at]


def _times(trace: Trace, seconds: Iterable[float]) -> list[datetime]:
    return [trace.start.astimezone(UTC) + timedelta(seconds=at) for at in seconds]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
