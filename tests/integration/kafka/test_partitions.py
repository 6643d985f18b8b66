"""A job under a real loop whose topic gets more partitions, and more records."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import sink_rows
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.looped_job import MEMORY_MB, LoopedJob

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]

SCRIPT = """
import sys
from airflow_adaptive.job import AdaptiveJob

servers, topic, output = sys.argv[1:]

def values(spark, parallelism):
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    stream = records.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING) AS value")
    return stream.writeStream.format("json").option("path", output).trigger(processingTime="1 second")

AdaptiveJob(values).run()
"""


def values(output: Path) -> list[str]:
    """Return the values that the committed batches have written, sorted."""
    return sorted(row["value"] for row in sink_rows(output))


@pytest.mark.asyncio
async def test_job_whose_topic_gets_partitions_uses_more_slots_and_writes_records_once(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=3, memory_mb=3 * MEMORY_MB)  # one for the driver
    kafka.clients.create_topic(topic, 1)
    output = tmp_path / "out"
    args = (kafka.bootstrap_servers, topic, str(output))
    job = LoopedJob(spark_cluster, tmp_path, SCRIPT, args, ParallelismRange(1, 2))
    expected: list[str] = []

    def produce(kind: str, count: int, partition: int) -> None:
        records = [f"{kind}-{number:04}" for number in range(count)]
        kafka.clients.produce(topic, records, partition)
        expected.extend(records)

    produce("a", 100, 0)
    async with job.running():
        await job.wait_executing(1)
        await job.wait("the records of one partition", lambda: values(output) == sorted(expected))
        kafka.clients.add_partitions(topic, 2)
        produce("b", 200, 1)
        await job.wait_executing(2)
        produce("c", 200, 0)
        produce("d", 200, 1)
        await job.wait("the records of both partitions", lambda: len(values(output)) >= len(expected))
        assert values(output) == sorted(expected)
        assert job.loop.state.restarts.attempts == 0
    await job.close()
