"""Departures and mean delay per carrier and hour, from a growing directory of flights: a streaming job that rescales."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob

SCHEMA = "carrier string, scheduled timestamp, departed boolean, delay_minutes int"


def departures(options: argparse.Namespace, spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    """The query, not started. One stateful vertex: its parallelism is the session's, so nothing is taken from the plan."""
    flights = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.files_per_batch).json(options.input)
    hours = (
        flights.withWatermark("scheduled", options.lateness)
        .groupBy("carrier", F.window("scheduled", "1 hour"))
        # A cancelled flight is no departure, but it does move the watermark: so it is left out here, not before.
        .agg(F.count_if("departed").alias("departures"), F.avg("delay_minutes").alias("mean_delay_minutes"))
        .where("departures > 0")
        .select("carrier", F.col("window.start").alias("hour"), "departures", "mean_delay_minutes")
    )
    # With append mode an hour is written once, when the watermark has passed its end; the file sink commits each
    # batch once: together, exactly once.
    return (
        hours.writeStream.format("parquet")
        .outputMode("append")
        .option("path", options.output)
        .trigger(processingTime=options.interval)
    )


def main() -> None:
    """Read the command line and run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--input", required=True, help="directory of JSON lines files, each renamed into it when complete"
    )
    parser.add_argument("--output", required=True, help="directory of Parquet files")
    parser.add_argument("--lateness", default="1 hour", help="how much later than a newer flight a flight may come")
    parser.add_argument("--files-per-batch", type=int, default=100, help="most files that a batch reads")
    parser.add_argument("--interval", default="2 seconds", help="time between the starts of two batches")
    options = parser.parse_args()
    AdaptiveJob(partial(departures, options)).run()


if __name__ == "__main__":
    main()
