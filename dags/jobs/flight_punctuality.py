"""Two queries of one job on a growing directory of flights: mean delay per carrier and hour, and the cancelled flights."""

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
    """The flights; each query reads them by itself, and its checkpoint tells how far it has come."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.files_per_batch).json(options.input)


def write(options: argparse.Namespace, rows: DataFrame, name: str) -> DataStreamWriter:
    """The query of that name, not started."""
    writer = rows.writeStream.queryName(name).format("parquet").option("path", f"{options.output}/{name}")
    return writer.trigger(processingTime=options.interval)


def punctuality(
    options: argparse.Namespace, spark: SparkSession, parallelism: Mapping[str, int]
) -> list[DataStreamWriter]:
    """The queries, each named like its slot sharing group.

    The stateful one has as many tasks as its plan says by itself, the other takes its parallelism from the plan.
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
    parser.add_argument(
        "--input", required=True, help="directory of JSON lines files, each renamed into it when complete"
    )
    parser.add_argument("--output", required=True, help="directory of one directory of Parquet files per query")
    parser.add_argument("--files-per-batch", type=int, default=100, help="most files that a batch reads")
    parser.add_argument("--interval", default="2 seconds", help="time between the starts of two batches")
    options = parser.parse_args()
    AdaptiveJob(partial(punctuality, options)).run()


if __name__ == "__main__":
    main()
