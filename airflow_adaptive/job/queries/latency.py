"""The latency of the rows of a query, measured where the rows leave the query.

Theory: the durations of batches do not contain the latency of Real-Time Mode, in which a row leaves the query while its batch runs. Open-source
Spark reports no latency. Therefore the query computes the age of each row by the clock of the executor, and Spark aggregates the ages of a
batch as an observed metric (`Dataset.observe`), which is part of the progress of the query. The clock of the executor and the clock of the
producers must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress

from airflow_adaptive._core.protocol.documents import LatencyReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METRIC: Final = "adaptive_latency"
"""Name of the observed metric, and of the column that exists only for the metric."""

PERCENTILES: Final = (0.5, 0.95, 0.99)


def observe_latency(rows: DataFrame, since: str = "timestamp") -> DataFrame:
    """Return the same rows, and let Spark measure their latency. The page shows its percentiles for the newest batch with rows.

    Call the function on the rows that go to the sink, as late as possible.

    Args:
        rows: rows of a streaming query.
        since: column with the time at which the latency of a row begins, of the type `timestamp`; Kafka's time of the
            record is `timestamp`. Rows without a time are not counted.
    """
    now = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("bigint")
    age = F.col(METRIC)
    percentiles = F.percentile_approx(age, F.array(*map(F.lit, PERCENTILES)))
    aged = rows.withColumn(METRIC, now - F.unix_millis(F.col(since)))
    return aged.observe(
        METRIC, F.count(age).alias("rows"), percentiles.alias("percentiles"), F.max(age).alias("max")
    ).drop(METRIC)


def read_latency(progress: StreamingQueryProgress) -> LatencyReport | None:
    """Return the latency of the rows of a batch, or None if the query does not measure it or has written no rows."""
    metric = progress.observedMetrics.get(METRIC)
    if metric is None or not metric["rows"]:
        return None
    p50, p95, p99 = metric["percentiles"]
    return LatencyReport(rows=metric["rows"], p50_ms=p50, p95_ms=p95, p99_ms=p99, max_ms=metric["max"])
