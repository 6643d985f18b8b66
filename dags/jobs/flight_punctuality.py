"""Runs two queries in one job: mean delays per carrier and hour, and canceled flights, from a directory to which flights are added."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob

SCHEMA = "carrier string, scheduled timestamp, departed boolean, delay_minutes int"


def read(options: argparse.Namespace, spark: SparkSession) -> DataFrame:
    """Return the flights. Each query reads the flights itself, and has its own position in its checkpoint."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.files_per_batch).json(options.input)


def write(options: argparse.Namespace, rows: DataFrame, name: str) -> DataStreamWriter:
    """Return the query with a name, without starting it."""
    writer = rows.writeStream.queryName(name).format("parquet").option("path", f"{options.output}/{name}")
    return writer.trigger(processingTime=options.interval)


def punctuality(
    options: argparse.Namespace, spark: SparkSession, parallelism: Mapping[str, int]
) -> list[DataStreamWriter]:
    """Return the queries without starting them. Each query has the name of its slot sharing group.

    The driver sets the parallelism of the stateful query. The other query uses the parallelism of the plan.
    """
    flights = read(options, spark)
    delays = (
        flights.withWatermark("scheduled", "1 hour")
        .groupBy("carrier", F.window("scheduled", "1 hour"))
        .agg(F.avg("delay_minutes").alias("mean_delay_minutes"))
        .select("carrier", F.col("window.start").alias("hour"), "mean_delay_minutes")
    )
    cancelled = read(options, spark).where("NOT departed").repartition(parallelism["cancellations"])
    return [write(options, delays, "delays"), write(options, cancelled, "cancellations")]


def main() -> None:
    """Read the command line and run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="directory of JSON lines files; rename complete files into it")
    parser.add_argument("--output", required=True, help="directory with a directory of Parquet files for each query")
    parser.add_argument("--files-per-batch", type=int, default=100, help="largest number of files in a batch")
    parser.add_argument("--interval", default="2 seconds", help="time between the starts of two batches")
    options = parser.parse_args()
    AdaptiveJob(partial(punctuality, options)).run()


if __name__ == "__main__":
    main()
