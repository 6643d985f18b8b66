"""The job under fault: copies rows to a strict sink, and exceeds the memory of its container on command."""

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from strict_sink import StrictSink  # type: ignore[import-not-found]  # staged beside it

from airflow_adaptive.job import AdaptiveJob

ROOT = Path(sys.argv[1])

COMMAND = ROOT / "in" / ".exceed-memory"

CHUNK = 16 * 1024 * 1024


def exceed_memory() -> None:
    """Take memory until the kernel ends the process. The command is removed first, so that the next driver does not obey it."""
    COMMAND.unlink()
    taken = []
    while True:
        taken.append(b"\1" * CHUNK)


def copy(spark: SparkSession, parallelism: Mapping[str, int]) -> DataStreamWriter:
    sink = StrictSink(spark, ROOT)

    def write(frame: DataFrame, batch: int) -> None:
        if COMMAND.exists():
            exceed_memory()
        sink(frame, batch)

    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(f"{ROOT}/in")
    checked = rows.repartition(parallelism["job"])
    return checked.writeStream.foreachBatch(write).trigger(processingTime="500 milliseconds")


AdaptiveJob(copy).run()
