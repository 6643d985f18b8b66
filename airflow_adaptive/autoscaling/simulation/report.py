"""Metrics of simulation runs: slot-hours and lag, and the comparison of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from airflow_adaptive.autoscaling.load.batch_cost import MAX_SLOTS, aligned
from airflow_adaptive.autoscaling.simulation.environment import Run
from airflow_adaptive.autoscaling.simulation.simulated_query import QueryModel
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
