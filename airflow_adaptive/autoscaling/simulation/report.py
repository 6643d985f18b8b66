"""Metrics of simulation runs: slot-hours and lag, the comparison of runs, and their plots over time, if matplotlib is installed."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from airflow_adaptive.autoscaling.load.batch_cost import MAX_SLOTS, aligned
from airflow_adaptive.autoscaling.policy import RescalePolicyError
from airflow_adaptive.autoscaling.simulation.environment import QueryModel, Run
from airflow_adaptive.autoscaling.simulation.trace import Trace

HOUR = 3600.0

P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationMetrics:
    """Metrics of one run.

    Attributes:
        name: name of the policy.
        slot_hours: slot-hours that the job held.
        over_share: share of the time with more slots than the load required.
        over_slots: mean surplus of slots in that time.
        under_share: share of the time with fewer slots than the load required.
        under_slots: mean lack of slots in that time.
        mean_lag: mean age of the oldest row at a commit over time, in seconds.
        p99_lag: 99th percentile of that age, in seconds.
        max_lag: maximum of that age, in seconds.
        rescales: number of rescales.
        rows_in: input rows.
        rows_processed: processed rows.
        rows_waiting: waiting rows.
    """

    name: str
    slot_hours: float
    over_share: float
    over_slots: float
    under_share: float
    under_slots: float
    mean_lag: float
    p99_lag: float
    max_lag: float
    rescales: int
    rows_in: float
    rows_processed: float
    rows_waiting: float

    def is_better_than(self, other: SimulationMetrics) -> bool:
        """Return whether the run used fewer slot-hours with the same or a smaller p99 lag."""
        return self.slot_hours < other.slot_hours and self.p99_lag <= other.p99_lag


def simulation_metrics(name: str, run: Run, query: QueryModel, trace: Trace) -> SimulationMetrics:
    """Compute the metrics of a run."""
    needed = {rate: slots_for(query, rate) for rate in set(trace.rates)}
    stretches = [(seconds, slots, slots - needed[rate]) for seconds, slots, rate in _stretches(run, trace)]
    over = [(spare, seconds) for seconds, _, spare in stretches if spare > 0]
    under = [(-spare, seconds) for seconds, _, spare in stretches if spare < 0]
    batches = run.batches
    rows_in = batches.arrived(run.end)
    return SimulationMetrics(
        name=name,
        slot_hours=sum(slots * seconds for seconds, slots, _ in stretches) / HOUR,
        over_share=sum(seconds for _, seconds in over) / run.end,
        over_slots=_mean(over, default=0.0),
        under_share=sum(seconds for _, seconds in under) / run.end,
        under_slots=_mean(under, default=0.0),
        mean_lag=_mean(list(zip(batches.lags, batches.spans, strict=True)), default=math.inf),
        p99_lag=percentile(batches.lags, batches.spans, P99),
        max_lag=max(batches.lags, default=math.inf),
        rescales=run.rescales,
        rows_in=rows_in,
        rows_processed=batches.processed,
        rows_waiting=batches.waiting(),
    )


def slots_for(query: QueryModel, rate: float) -> int:
    """Return the smallest number of slots, at least one, that can process a rate permanently."""
    room = query.trigger - query.fixed
    if room <= 0:
        return MAX_SLOTS
    return aligned(rate * query.trigger / (room * query.slot_rate), query.partitions)


def percentile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Weighted percentile; infinite without values."""
    left = share * sum(weights)
    for value, weight in sorted(zip(values, weights, strict=True)):
        left -= weight
        if left <= 0:
            return value
    return math.inf


def table(rows: Sequence[SimulationMetrics]) -> str:
    """Return the runs as a text table, and the comparison of the first run with the others."""
    head = ("policy", "slot-hours", "over", "by", "under", "by", "mean lag", "p99 lag", "max lag", "rescales")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(_padded(row, widths)) for row in cells]
    return "\n".join([*lines, "", *_comparison(rows)])


def document(rows: Iterable[SimulationMetrics], **about: Any) -> dict[str, Any]:
    """Return the runs as JSON values; values that are not finite become null."""
    return {**about, "runs": [{key: _finite(value) for key, value in asdict(row).items()} for row in rows]}


def _stretches(run: Run, trace: Trace) -> Iterator[tuple[float, int, float]]:
    """Yield intervals of constant slots and rate: seconds, slots, rate."""
    changes = [*run.held, (run.end, 0)]
    segment = 0
    for (begin, slots), (end, _) in pairwise(changes):
        at = begin
        while at < end:
            while segment + 1 < len(trace.rates) and trace.times[segment + 1] <= at:
                segment += 1
            last = segment + 1 == len(trace.rates)
            until = end if last else min(end, trace.times[segment + 1])
            yield until - at, slots, trace.rates[segment]
            at = until


def _mean(weighted: Sequence[tuple[float, float]], default: float) -> float:
    """Mean of values with their weights; the default without a weight."""
    total = sum(weight for _, weight in weighted)
    return sum(value * weight for value, weight in weighted) / total if total else default


def _cells(row: SimulationMetrics) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.slot_hours:.1f}",
        f"{row.over_share:.1%}",
        f"{row.over_slots:.2f}",
        f"{row.under_share:.1%}",
        f"{row.under_slots:.2f}",
        f"{row.mean_lag:.1f} s",
        f"{row.p99_lag:.1f} s",
        f"{row.max_lag:.1f} s",
        str(row.rescales),
    )


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if not index else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _comparison(rows: Sequence[SimulationMetrics]) -> Iterator[str]:
    first, *others = rows
    if not others:
        return
    better = [other.name for other in others if other.is_better_than(first)]
    if better:
        yield f"fewer slot-hours with the same or a smaller p99 lag than {first.name}: {', '.join(better)}"
    else:
        yield f"no baseline uses fewer slot-hours than {first.name} with the same or a smaller p99 lag"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


def require_matplotlib() -> Any:
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
    figure = require_matplotlib().Figure(figsize=(13, 1.4 + 1.55 * len(rows)), layout="constrained")
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
