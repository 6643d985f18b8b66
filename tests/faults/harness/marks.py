"""Leaves marks of which driver ran a query when; staged with the scripts under fault."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

SAMPLE_S = 0.2
NAME = "marks"


def mark_epoch(spark: SparkSession, root: Path) -> int:
    """Begin to mark, once in a driver; the driver's epoch."""
    epoch = int(spark.sparkContext.getConf().get("spark.airflow.adaptive.epoch", "0"))
    if NAME not in {thread.name for thread in threading.enumerate()}:
        file = root / NAME / f"{epoch}-{time.time_ns()}"
        threading.Thread(target=_sample, args=(spark, file), name=NAME, daemon=True).start()
    return epoch


def _sample(spark: SparkSession, file: Path) -> None:
    """Write down again and again whether a query is active in this process."""
    with file.open("w", buffering=1) as marks:
        while True:
            active = any(query.isActive for query in spark.streams.active)
            marks.write(f"{time.time():.3f} {int(active)}\n")
            time.sleep(SAMPLE_S)
