"""The latency of the rows of a batch, from the metric that Spark observes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_adaptive._core.protocol.documents import LatencyReport
from airflow_adaptive.job.queries.progress import METRIC, read_latency


def latency(**metrics: Any) -> LatencyReport | None:
    progress: Any = SimpleNamespace(observedMetrics=metrics)
    return read_latency(progress)


def test_latency_has_percentiles_and_the_maximum() -> None:
    metric = {"rows": 3, "percentiles": [9, 51, 71], "max": 72}
    assert latency(**{METRIC: metric}) == LatencyReport(rows=3, p50_ms=9, p95_ms=51, p99_ms=71, max_ms=72)


def test_latency_of_a_batch_without_rows_is_unknown() -> None:
    assert latency(**{METRIC: {"rows": 0, "percentiles": None, "max": None}}) is None


def test_query_that_does_not_measure_its_latency_has_none() -> None:
    assert latency(other={"rows": 3}) is None
