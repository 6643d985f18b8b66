"""Ends real queries at random moments and writes down how; a process of its own, since it starts a JVM.

Usage: boundary_trials.py <directory>
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.boundary import BatchBoundary

RESULT = "trials.json"
TIMEOUT_S = 60.0

TRIALS = {
    # back to back: a batch is always being begun, planned, run or committed
    "busy": (10, {}),
    # idle for most of a second, by Spark's own clock
    "ticking": (4, {"processingTime": "1 second"}),
    # waits for its next trigger for longer than anybody waits for it
    "sleeping": (3, {"processingTime": "1 hour"}),
}


def start(spark: SparkSession, name: str, checkpoint: Path, trigger: dict[str, str]) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    writer = rows.groupBy("value").count().writeStream.outputMode("update").format("noop").queryName(name)
    writer = writer.trigger(**trigger) if trigger else writer
    return writer.option("checkpointLocation", str(checkpoint)).start()


def newest(checkpoint: Path, log: str) -> int:
    names = (file.name for file in (checkpoint / log).glob("*"))
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def trial(spark: SparkSession, name: str, checkpoint: Path, trigger: dict[str, str]) -> dict[str, object]:
    query = start(spark, name, checkpoint, trigger)
    time.sleep(random.uniform(0.0, 1.5))
    began = time.monotonic()
    exact = BatchBoundary(spark, query, pause=time.sleep).end(TIMEOUT_S)
    return {
        "kind": name,
        "exact": exact,
        "took_s": time.monotonic() - began,
        "began": newest(checkpoint, "offsets"),
        "committed": newest(checkpoint, "commits"),
        "active": query.isActive,
        "registered": len(spark.streams.active),
        "failed": query.exception() is not None,
    }


def main(directory: Path) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "512m")
    spark = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    trials = [trial(spark, kind, directory / kind, trigger) for kind, (n, trigger) in TRIALS.items() for _ in range(n)]
    (directory / RESULT).write_text(json.dumps(trials))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
