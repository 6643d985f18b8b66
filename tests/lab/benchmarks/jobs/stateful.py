"""A count per key: the tasks of its second stage keep state."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob


def stateful(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    """Count 50,000 keys."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10_000).option("numPartitions", parallelism["read"])
    counted = rows.load().selectExpr("hash(value) % 50000 AS key").groupBy("key").count()
    return counted.writeStream.outputMode("update").format("noop")


AdaptiveJob(stateful).run()
