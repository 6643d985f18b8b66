"""Ends real queries at random moments, and holds them between two batches; writes down how it went.

A process of its own, since it starts a JVM. Usage: batch_boundary_experiment.py <directory>
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_adaptive.job.queries.batch_boundary import BatchBoundary, act_between_batches, end_at_boundary
from airflow_adaptive.local.waiting import wait_until

RESULT = "trials.json"
TIMEOUT_S = 180.0
HELD_S = 0.5

TRIGGERS: Mapping[str, Mapping[str, Any]] = {
    # back to back: a batch is always being begun, planned, run or committed
    "busy": {},
    # idle for most of a second, by Spark's own clock
    "ticking": {"processingTime": "1 second"},
    # waits for its next trigger for longer than the experiment
    "sleeping": {"processingTime": "1 hour"},
}

STUCK = "stuck"
"""Its batch ends after the timeout of the experiment."""

IMPATIENT_S = 2.0

TRIALS = (*[("busy",)] * 10, *[("ticking",)] * 4, *[("sleeping",)] * 3, *[tuple(TRIGGERS)] * 4)
"""Which queries run together, of `TRIGGERS`, and are ended together."""

HOLDS = 5


class Running:
    """Queries that run beside each other, on checkpoints that they go on from."""

    def __init__(self, spark: SparkSession, directory: Path, kinds: tuple[str, ...]) -> None:
        self.spark = spark
        self.kinds = kinds
        self.checkpoints = [directory / "-".join(kinds) / kind for kind in kinds]
        self.queries = list(map(self._start, kinds, self.checkpoints))

    def boundaries(self) -> list[BatchBoundary]:
        return [BatchBoundary(self.spark, query) for query in self.queries]

    def newest(self, log: str) -> list[int]:
        """The newest batch in the offset logs (`offsets`) or commit logs (`commits`)."""
        return [max(_numbers(checkpoint / log), default=-1) for checkpoint in self.checkpoints]

    def _start(self, kind: str, checkpoint: Path) -> StreamingQuery:
        rows = self.spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        if kind == STUCK:
            rows = rows.coalesce(1).where(f"reflect('java.lang.Thread', 'sleep', {1000 * TIMEOUT_S:.0f}L) IS NULL")
        writer = rows.groupBy("value").count().writeStream.outputMode("update").format("noop").queryName(kind)
        writer = writer.trigger(**TRIGGERS[kind]) if TRIGGERS.get(kind) else writer
        return writer.option("checkpointLocation", str(checkpoint)).start()


def end(spark: SparkSession, directory: Path, kinds: tuple[str, ...]) -> dict[str, object]:
    running = Running(spark, directory, kinds)
    time.sleep(random.uniform(0.0, 1.5))
    exact = end_at_boundary(running.boundaries(), TIMEOUT_S, time.sleep)
    return {
        "kinds": kinds,
        "exact": exact,
        "began": running.newest("offsets"),
        "committed": running.newest("commits"),
        "active": any(query.isActive for query in running.queries),
        "registered": len(spark.streams.active),
        "failed": any(query.exception() is not None for query in running.queries),
    }


def hold(running: Running) -> dict[str, object]:
    """What stands in the logs when all are held, and what a while later."""
    time.sleep(random.uniform(0.0, 0.5))
    seen = []

    def check() -> None:
        for pause_s in (0.0, HELD_S):
            time.sleep(pause_s)
            stages = list(running.spark.sparkContext.statusTracker().getActiveStageIds())
            seen.append([running.newest("offsets"), running.newest("commits"), stages])

    held = act_between_batches(running.boundaries(), TIMEOUT_S, time.sleep, check)
    return {"held": held, "seen": seen}


def holds(spark: SparkSession, directory: Path) -> list[dict[str, object]]:
    """Also while they are being started: a query that resumes may have a batch to replay before anything else."""
    running = Running(spark, directory, tuple(TRIGGERS))
    held = [hold(running) for _ in range(HOLDS)]
    for query in running.queries:
        query.stop()
    running = Running(spark, directory, tuple(TRIGGERS))
    held += [hold(running) for _ in range(HOLDS)]
    end_at_boundary(running.boundaries(), TIMEOUT_S, time.sleep)
    return held


def impatient(spark: SparkSession, directory: Path) -> dict[str, object]:
    """One query whose batch does not end in time, beside one that ticks on."""
    running = Running(spark, directory, ("ticking", STUCK))
    _wait(lambda: running.newest("commits")[0] >= 3 and running.newest("offsets")[1] > running.newest("commits")[1])
    acts: list[str] = []
    began = time.monotonic()
    held = act_between_batches(running.boundaries(), IMPATIENT_S, time.sleep, lambda: acts.append("act"))
    held_s, (before, _) = time.monotonic() - began, running.newest("commits")
    _wait(lambda: running.newest("commits")[0] > before + 1)
    exact = end_at_boundary(running.boundaries(), IMPATIENT_S, time.sleep)
    return {
        "held": held,
        "held_s": held_s,
        "acts": acts,
        "exact": exact,
        "began": running.newest("offsets"),
        "committed": running.newest("commits"),
        "active": any(query.isActive for query in running.queries),
    }


def _wait(condition: Callable[[], bool]) -> None:
    wait_until(condition, TIMEOUT_S, "what the trial begins with")


def _numbers(log: Path) -> list[int]:
    return [int(file.name) for file in log.glob("*") if file.name.isdecimal()]


def main(directory: Path) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "512m")
    spark = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    ended = [end(spark, directory, kinds) for kinds in TRIALS]
    held = holds(spark, directory / "held")
    result = {"ended": ended, "held": held, "impatient": [impatient(spark, directory / "impatient")]}
    (directory / RESULT).write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
