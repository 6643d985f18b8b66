"""Jobs in Real-Time Mode on a real cluster and a real broker: they wait for their gang, rescale between batches and restart once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.spark_version import NEEDS_REAL_TIME_MODE
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.looped_job import MEMORY_MB
from tests.support.kafka.real_time_job import RealTimeJob

pytestmark = [pytest.mark.timeout(1200), NEEDS_REAL_TIME_MODE]


def add_slots(cluster: LocalCluster, slots: int) -> None:
    cluster.add_worker(cores=slots, memory_mb=slots * MEMORY_MB)


async def kill_until_failure(job: RealTimeJob) -> None:
    """Kill executors until the gang of a batch fails. Between two batches, the query survives the loss."""
    while job.loop.state.restarts.attempts == 0:
        before = job.executors()

        def has_failed_or_recovered(before: set[str] = before) -> bool:
            return job.loop.state.restarts.attempts > 0 or len(job.executors() - before) == 1

        job.kill_executor()
        await job.wait("a failure, or another executor", has_failed_or_recovered)


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


@pytest.mark.long
@pytest.mark.asyncio
async def test_failure_of_a_gang_is_one_restart_and_fewer_slots_continue_the_counts(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    add_slots(spark_cluster, 5)
    job = RealTimeJob(spark_cluster, kafka, topic, tmp_path, slots=4)
    expected = Counter(a=3, b=2)
    job.produce(expected)
    async with job.running():
        await job.wait_executing(4)
        await job.wait("the first counts", lambda: job.counts() == expected)
        await job.wait("the latency of the rows", lambda: job.latency() is not None)
        latency = job.latency()
        assert latency is not None
        assert 0 <= latency["p50_ms"] <= latency["p95_ms"] <= latency["p99_ms"] <= latency["max_ms"]

        await kill_until_failure(job)
        expected.update(a=1, c=5)
        job.produce({"a": 1, "c": 5})
        await job.wait_executing(4)
        await job.wait("the counts after the failure", lambda: job.counts() == expected)
        assert job.loop.state.restarts.attempts == 1

        job.request_bounds(1, 3)
        await job.wait_executing(3)
        expected.update(c=1, d=2)
        job.produce({"c": 1, "d": 2})
        await job.wait("the counts on fewer slots", lambda: job.counts() == expected)
        await job.wait("one state partition", lambda: job.state_partitions() == "1")
        assert job.loop.state.restarts.attempts == 1
    await job.close()
