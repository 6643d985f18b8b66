"""Measures how much memory an executor keeps after restarts of a query with state in RocksDB, as by rescales in tier 1.

A process of its own, since it starts a JVM. Usage: memory_experiment.py <directory> [restarts] [state partitions] [name=value]...

The last arguments are further Spark properties; an empty value removes one. The heaps are touched when the JVMs start, so only memory
outside of them can grow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_adaptive._engine.step_executor import DRIVER_DEFAULTS
from airflow_adaptive.job.queries.batch_boundary import end_at_boundary
from airflow_adaptive.job.queries.job_query import JobQuery, boundaries
from airflow_adaptive.job.spark_internals import java_class
from airflow_adaptive.local.waiting import wait_until

RESULT = "memory.json"
TIMEOUT_S = 300.0
HEAP_MB = 512
RESTARTS = 120
PARTITIONS = 8
WARM_UP = 5
"""Restarts before the first measurement, which load and compile the classes."""

REPORT_EVERY = 20


class Restarts:
    """A query that counts, which is restarted, and the processes that run it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._folder = root / "in"
        self._folder.mkdir(parents=True)
        self._number = 0
        self._query = JobQuery(spark, "counts", str(root / "checkpoint"))
        driver = psutil.Process(java_class(spark, "java.lang.ProcessHandle").current().pid())
        executor = next(
            child for child in driver.children() if any("ExecutorBackend" in word for word in child.cmdline())
        )
        self._processes = {"driver": driver, "executor": executor}

    def restart(self) -> None:
        """Start the query, process one file, and end the query at a batch boundary."""
        (self._folder / f"{self._number}.json").write_text("".join(f'{{"key": {key}}}\n' for key in range(200)))
        (self._folder / f"{self._number - 3}.json").unlink(missing_ok=True)
        self._number += 1
        self._query.start(_writer(self._spark.readStream.schema("key long").json(str(self._folder))))
        assert self._query.wait_for_first_trigger(TIMEOUT_S)
        self._query._query.processAllAvailable()  # type: ignore[union-attr]  # the query was started
        assert end_at_boundary(boundaries([self._query]), TIMEOUT_S, lambda _: None)
        self._query.end_run()

    def memory_mb(self) -> dict[str, int]:
        """Resident memory of driver and executor."""
        return {name: process.memory_info().rss >> 20 for name, process in self._processes.items()}

    def wait_until_stores_are_closed(self) -> None:
        """Spark closes the stores of an ended run in its maintenance, and deletes their directories."""
        wait_until(
            lambda: not any(self._root.glob("local/*/*/*/StateStoreId*")), TIMEOUT_S, "the end of all state stores"
        )


def _writer(rows: DataFrame) -> DataStreamWriter:
    return rows.groupBy("key").count().writeStream.outputMode("update").format("noop")


def main(root: Path, restarts: str = str(RESTARTS), partitions: str = str(PARTITIONS), *properties: str) -> None:
    os.environ["SPARK_WORKER_DIR"] = str(root / "work")
    java = f"-Xms{HEAP_MB}m -XX:+AlwaysPreTouch -XX:+UseSerialGC"
    conf: Mapping[str, str] = {
        **DRIVER_DEFAULTS,
        "spark.driver.extraJavaOptions": java,
        "spark.driver.memory": f"{HEAP_MB}m",
        "spark.executor.extraJavaOptions": java,
        "spark.executor.memory": f"{HEAP_MB}m",
        "spark.local.dir": str(root / "local"),
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": partitions,
        "spark.sql.streaming.stopTimeout": "10000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **dict(text.split("=", 1) for text in properties),
    }
    builder = SparkSession.builder.master(f"local-cluster[1,2,{HEAP_MB}]")
    spark = builder.config(map={name: value for name, value in conf.items() if value}).getOrCreate()
    spark.range(10).repartition(2).count()
    trial = Restarts(spark, root)
    measured: dict[str, dict[str, int]] = {}
    for number in range(1, int(restarts) + 1):
        trial.restart()
        if number == WARM_UP:
            trial.wait_until_stores_are_closed()
        if number == WARM_UP or number % REPORT_EVERY == 0:
            measured[str(number)] = trial.memory_mb()
            print(number, measured[str(number)], flush=True)
    trial.wait_until_stores_are_closed()
    measured["closed"] = trial.memory_mb()
    print("closed", measured["closed"], flush=True)
    (root / RESULT).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
