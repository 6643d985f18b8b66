"""The job under fault: copies rows to a strict sink."""

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from strict_sink import StrictSink  # type: ignore[import-not-found]  # staged beside it

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])


def copy(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism["job"]).selectExpr("id", "1 / (id + 1) AS checked")  # -1 fails its batch
    return checked.writeStream.foreachBatch(StrictSink(spark, ROOT)).trigger(processingTime="500 milliseconds")


AdaptiveJob(copy).run()
