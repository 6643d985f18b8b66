"""Counts departures and computes mean delays per carrier and hour, from a directory or a topic of Kafka to which flights are added."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job import AdaptiveJob

SCHEMA = "carrier string, scheduled timestamp, departed boolean, delay_minutes int"


def flights(options: argparse.Namespace, spark: SparkSession) -> DataFrame:
    """Return the stream of the flights."""
    if options.input is not None:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.files_per_batch).json(options.input)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.records_per_batch)
        .load()
    )
    return records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")


def departures(options: argparse.Namespace, spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    """Return the query without starting it. Its only vertex is stateful, and the driver sets the parallelism of stateful vertices."""
    hours = (
        flights(options, spark)
        .withWatermark("scheduled", options.lateness)
        .groupBy("carrier", F.window("scheduled", "1 hour"))
        # Canceled flights advance the watermark, too. Therefore the aggregation excludes them, and not a filter before it.
        .agg(F.count_if("departed").alias("departures"), F.avg("delay_minutes").alias("mean_delay_minutes"))
        .where("departures > 0")
        .select("carrier", F.col("window.start").alias("hour"), "departures", "mean_delay_minutes")
    )
    # In append mode the query writes each hour once, after the watermark has passed its end. The file sink commits each
    # batch once. Together the output is exactly-once.
    return (
        hours.writeStream.format("parquet")
        .outputMode("append")
        .option("path", options.output)
        .trigger(processingTime=options.interval)
    )


def main() -> None:
    """Read the command line and run the job."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", help="directory of JSON lines files; rename complete files into it")
    source.add_argument(
        "--topic", help="topic of Kafka whose records are flights as JSON, in the order of their departure"
    )
    parser.add_argument("--bootstrap-servers", help="addresses of brokers, with --topic")
    parser.add_argument("--records-per-batch", type=int, default=20_000, help="largest number of records in a batch")
    parser.add_argument("--output", required=True, help="directory of Parquet files")
    parser.add_argument("--lateness", default="1 hour", help="largest delay of a flight behind newer flights")
    parser.add_argument("--files-per-batch", type=int, default=100, help="largest number of files in a batch")
    parser.add_argument("--interval", default="2 seconds", help="time between the starts of two batches")
    options = parser.parse_args()
    AdaptiveJob(partial(departures, options)).run()


if __name__ == "__main__":
    main()
