"""Counts records by key on Spark: `<folder> <reads>`; "reads" if the query is to be built for its parallelism (tier 1)."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob

ROOT, READS = sys.argv[1], sys.argv[2] == "reads"
SCHEMA = "k INT, f INT"


def save(counts: DataFrame, batch: int) -> None:
    """A batch that is written again fails: the rescales happen between two batches, so only a lost checkpoint repeats a batch."""
    counts.write.mode("error").csv(f"{ROOT}/out/{batch}")


def count(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    """The new count of each key that came in a batch."""
    records = spark.readStream.schema(SCHEMA).csv(f"{ROOT}/in")
    if READS:
        records = records.coalesce(parallelism["job"])
    return records.groupBy("k").count().writeStream.outputMode("update").foreachBatch(save)


AdaptiveJob(count).run()
