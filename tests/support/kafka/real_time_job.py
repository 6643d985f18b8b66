"""A job in Real-Time Mode under a real loop, on the embedded cluster: it counts the records of a topic by their value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.looped_job import JOB, LoopedJob

SCRIPT = """
import sys
from pyspark.sql import functions as F
from airflow_adaptive.job import AdaptiveJob, observe_latency

servers, source, sink = sys.argv[1:]

def counts(spark, parallelism):
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    values = records.option("startingOffsets", "earliest").load().select(F.col("value").cast("string").alias("name"), "timestamp")
    counted = values.groupBy("name").agg(F.count("*").alias("count"), F.max("timestamp").alias("timestamp"))
    times = F.unix_millis("timestamp").alias("at"), F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis")).cast("bigint").alias("left")
    rows = observe_latency(counted).select(F.to_json(F.struct("name", "count", *times)).alias("value"))
    written = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", sink)
    return written.outputMode("update").trigger(realTime="5 seconds")

"""

COPIES = """
def counts_and_copies(spark, parallelism):
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", sink)
    values = records.option("startingOffsets", "earliest").load().select("value")
    written = values.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", f"{source}-copies")
    copies = written.outputMode("update").trigger(realTime="5 seconds")
    return [counts(spark, parallelism).queryName("counts"), copies.queryName("copies")]
"""
"""A second query, which copies the output of the first one."""


class RealTimeJob(LoopedJob):
    """The job. Its topics are `<name>` and `<name>-counts`, and `<name>-copies` with two queries."""

    def __init__(
        self,
        cluster: LocalCluster,
        kafka: KafkaCluster,
        topic: str,
        root: Path,
        slots: int,
        *,
        copies: bool = False,
    ) -> None:
        """Describe a job that may have that many slots; nothing runs yet. With `copies`, a second query copies the output."""
        args = (kafka.bootstrap_servers, topic, f"{topic}-counts")
        script = (
            f"{SCRIPT}{COPIES if copies else ''}\nAdaptiveJob({'counts_and_copies' if copies else 'counts'}).run()\n"
        )
        super().__init__(cluster, root, script, args, ParallelismRange(1, slots))
        self._cluster = cluster
        self._kafka = kafka
        self._topic = topic
        kafka.clients.create_topic(topic, 2)
        for output in ("counts", "copies"):
            kafka.clients.create_topic(f"{topic}-{output}", 1)

    def produce(self, counts: Mapping[str, int], partition: int | None = None) -> None:
        """Add records: each name as often as given."""
        names = [name for name, count in counts.items() for _ in range(count)]
        self._kafka.clients.produce(self._topic, names, partition)

    def add_partition(self) -> None:
        """Add a third partition to the source."""
        self._kafka.clients.add_partitions(self._topic, 3)

    def kill_executor(self) -> None:
        """Kill the JVM of an executor (SIGKILL)."""
        children = [child for worker in self._cluster.workers for child in psutil.Process(worker.pid).children()]
        alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        next(child for child in alive if "--executor-id" in child.cmdline()).kill()

    def executors(self) -> set[str]:
        """Return the ids of the registered executors."""
        return {executor["executor_id"] for executor in self.status().get("executors", ())}

    def latency(self) -> dict[str, int] | None:
        """Return the latency of the newest batch with rows."""
        found: dict[str, int] | None = next((query["latency"] for query in self.status().get("queries", ())), None)
        return found

    def counts(self, output: str = "counts") -> dict[str, int]:
        """Return the newest count of each name in an output."""
        return {row["name"]: row["count"] for row in self.rows(output)}

    def rows(self, output: str = "counts") -> list[dict[str, Any]]:
        """Return an output: name, count, and when its newest record was produced (`at`) and the row `left` the query, in Unix milliseconds."""
        return list(map(json.loads, self._kafka.clients.read(f"{self._topic}-{output}")))

    def state_partitions(self) -> str | None:
        """Return the number of state partitions of the newest batch in the checkpoint."""
        folder = self._root / JOB / "checkpoints" / JOB / "offsets"
        newest = max((int(file.name) for file in folder.glob("[0-9]*")), default=None)
        if newest is None:
            return None
        metadata = json.loads((folder / str(newest)).read_text().splitlines()[1])
        partitions: str = metadata["conf"]["spark.sql.shuffle.partitions"]
        return partitions
