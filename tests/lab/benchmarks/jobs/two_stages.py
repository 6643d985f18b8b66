"""Two stages without state that share no divisor: as many source tasks as planned, then as many others."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob


def two_stages(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    """Hash each row twice; between the stages the rows are shuffled."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20_000).option("numPartitions", parallelism["read"])
    hashed = rows.load().selectExpr("value", "sha2(string(value), 512) AS digest")
    again = hashed.repartition(parallelism["hash"], "value").selectExpr("value", "sha2(digest, 512) AS digest")
    return again.writeStream.format("noop")


AdaptiveJob(two_stages).run()
