"""A job in Real-Time Mode on a real cluster and a real broker: it waits for its gang, rescales between batches and restarts once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.real_time_job import MEMORY_MB, RealTimeJob

pytestmark = pytest.mark.timeout(1200)


def add_slots(cluster: LocalCluster, slots: int) -> None:
    cluster.add_worker(cores=slots, memory_mb=slots * MEMORY_MB)


@pytest.mark.asyncio
async def test_job_waits_for_its_gang_and_rescales_between_batches(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    add_slots(spark_cluster, 2)  # one for the driver, and one slot
    job = RealTimeJob(spark_cluster, kafka, topic, tmp_path, slots=4)
    expected: Counter[str] = Counter()

    def produce(**counts: int) -> None:
        job.produce(counts)
        expected.update(counts)

    produce(a=3, b=2)
    async with job.running():
        await job.wait("the gang in the status of the driver", lambda: job.status().get("gangs") == {"counts": 3})
        await job.wait("a job that waits", lambda: job.loop.state.name == "WaitingForResources")
        assert job.loop.state.requirements["job"].lower == 3
        assert job.loop.state.restarts.attempts == 0

        add_slots(spark_cluster, 2)
        await job.wait_executing(3)
        await job.wait("the first counts", lambda: job.counts() == expected)
        await job.wait("one state partition", lambda: job.state_partitions() == "1")

        add_slots(spark_cluster, 1)
        await job.wait_executing(4)
        produce(a=1, c=5)
        await job.wait("the counts after the rescale", lambda: job.counts() == expected)
        await job.wait("two state partitions", lambda: job.state_partitions() == "2")
        assert job.loop.state.restarts.attempts == 0
    await job.close()
