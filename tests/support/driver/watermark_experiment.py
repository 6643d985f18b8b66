"""Counts the windows that a query with two watermarks closes, whose sources have data in turn.

A process of its own, since it starts a JVM. Usage: watermark_experiment.py <directory>
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive.job.queries.batch_boundary import end_at_boundary
from airflow_adaptive.job.queries.job_query import JobQuery, boundaries
from airflow_adaptive.local.waiting import wait_until

RESULT = "windows.json"
TIMEOUT_S = 180.0
BATCHES = 8


def closed_windows(spark: SparkSession, root: Path, *, is_restarted: bool) -> int:
    """Run the query over a file of the one or the other source per batch, with a restart at each batch boundary or without any."""
    folders = [root / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir(parents=True)
    query = JobQuery(spark, "windows", str(root / "checkpoint"))
    for batch in range(BATCHES):
        if is_restarted or not batch:
            query.start(_writer(spark, folders, root / "out"))
            assert query.wait_for_first_trigger(TIMEOUT_S)
        event = {"time": f"2026-01-01T00:{5 * batch:02d}:00", "value": batch}
        (folders[batch % 2] / f"{batch}.json").write_text(json.dumps(event))
        _finish(query, root, batch)
        if is_restarted:
            assert end_at_boundary(boundaries([query]), TIMEOUT_S, lambda _: None)
            query.end_run()
    query.stop()
    return spark.read.schema("count long").json(str(root / "out")).count()


def _writer(spark: SparkSession, folders: list[Path], out: Path) -> DataStreamWriter:
    def source(folder: Path) -> DataFrame:
        return spark.readStream.schema("time timestamp, value int").json(str(folder)).withWatermark("time", "1 minute")

    rows = source(folders[0]).union(source(folders[1]))
    counts = rows.groupBy(functions.window("time", "1 minute")).count()
    return counts.writeStream.outputMode("append").format("json").option("path", str(out))


def _finish(query: JobQuery, root: Path, batch: int) -> None:
    """Wait until the file of the batch was read, and until the batch without data that closes windows has ended."""

    def is_read() -> bool:
        query.update()
        logged = root / "checkpoint" / "sources"
        names = [path.read_text() for path in logged.rglob("*") if path.is_file() and not path.name.startswith(".")]
        return any(f"/{batch}.json" in text for text in names)

    wait_until(is_read, TIMEOUT_S, f"batch {batch}")
    query._query.processAllAvailable()  # type: ignore[union-attr]  # the query was started


def main(directory: Path) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "600m")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.stopTimeout", "10000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    windows = {
        name: closed_windows(spark, directory / name, is_restarted=name == "restarted")
        for name in ("steady", "restarted")
    }
    (directory / RESULT).write_text(json.dumps(windows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
