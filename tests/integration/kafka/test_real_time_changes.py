"""Jobs in Real-Time Mode whose gang grows, and jobs with two gangs, on a real cluster and a real broker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.spark_version import NEEDS_REAL_TIME_MODE
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.looped_job import MEMORY_MB
from tests.support.kafka.real_time_job import RealTimeJob

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long, NEEDS_REAL_TIME_MODE]


def add_slots(cluster: LocalCluster, slots: int) -> None:
    cluster.add_worker(cores=slots, memory_mb=slots * MEMORY_MB)


@pytest.mark.asyncio
async def test_job_waits_for_the_slots_of_partitions_that_are_added_while_it_runs(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    add_slots(spark_cluster, 4)  # one for the driver
    job = RealTimeJob(spark_cluster, kafka, topic, tmp_path, slots=4)
    expected = Counter(a=3, b=2)
    job.produce(expected)
    async with job.running():
        await job.wait_executing(3)
        await job.wait("the first counts", lambda: job.counts() == expected)

        job.add_partition()
        job.produce({"a": 1, "c": 5}, partition=2)
        expected.update(a=1, c=5)
        await job.wait("the larger gang", lambda: job.loop.state.requirements["job"].lower == 4)
        await job.wait("a job that waits", lambda: job.loop.state.name == "WaitingForResources")
        add_slots(spark_cluster, 1)
        await job.wait_executing(4)
        await job.wait("the counts of all partitions", lambda: job.counts() == expected)
        assert job.loop.state.restarts.attempts == 1
    await job.close()


@pytest.mark.asyncio
async def test_two_queries_run_on_the_slots_of_both_gangs(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    add_slots(spark_cluster, 4)  # one for the driver
    job = RealTimeJob(spark_cluster, kafka, topic, tmp_path, slots=5, copies=True)
    expected = Counter(a=3, b=2)
    job.produce(expected)
    async with job.running():
        await job.wait("both gangs", lambda: job.status().get("gangs") == {"counts": 3, "copies": 1})
        await job.wait("a job that waits", lambda: job.loop.state.name == "WaitingForResources")
        assert job.loop.state.requirements["job"].lower == 4

        add_slots(spark_cluster, 1)
        await job.wait_executing(4)
        await job.wait("the first counts", lambda: job.counts() == expected)
        await job.wait("the first copies", lambda: job.counts("copies") == expected)

        add_slots(spark_cluster, 1)
        await job.wait_executing(5)
        job.produce({"a": 1, "c": 5})
        expected.update(a=1, c=5)
        await job.wait("the counts after the rescale", lambda: job.counts() == expected)
        await job.wait("the copies after the rescale", lambda: job.counts("copies") == expected)
        await job.wait("two state partitions", lambda: job.state_partitions() == "2")
        assert job.loop.state.restarts.attempts == 0
    await job.close()
