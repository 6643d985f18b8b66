"""What a real driver knows about each of its sources, and what it says if a source cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.sources import KafkaSource
from airflow_adaptive._core.scheduler.requirements import ParallelismRange
from airflow_adaptive.job.queries.sources.topic_ids import FILE
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import JOB, TIMEOUT_S
from tests.support.driver.spark_version import NEEDS_REAL_TIME_MODE
from tests.support.kafka.cluster import KafkaCluster, running_kafka
from tests.support.kafka.driver_on_kafka import DriverOnKafka
from tests.support.kafka.looped_job import MEMORY_MB, LoopedJob
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.timeout(1200)

ACCEPT_LOSS = {"failOnDataLoss": "false"}

START_S = 3 * TIMEOUT_S
"""For the start of a driver and its first batch, beside a broker."""


@pytest.fixture
def job(spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path) -> DriverOnKafka:
    return DriverOnKafka.create(spark_cluster, kafka, topic, tmp_path)


def test_topics_of_one_name_on_two_clusters_are_two_topics(job: DriverOnKafka) -> None:
    job.kafka.clients.create_topic(job.topic, 1)
    job.kafka.clients.produce(job.topic, ["a", "b"])
    file = job.driver.directory / "checkpoints" / JOB / FILE
    with running_kafka() as other:
        other.clients.create_topic(job.topic, 1)
        other.clients.produce(job.topic, ["c"])
        job.start(others=[other.bootstrap_servers])

        def is_read() -> bool:
            known = json.loads(file.read_text()) if file.exists() else {}
            return len(known) == 2 and job.values() == ["a", "b", "c"]

        wait_until(is_read, START_S, "the records and the ids of both topics")
        status = job.driver.wait_status(
            "both clusters",
            lambda now: len([it for it in now.queries[0].sources if it.kafka is not None]) == 2,
            START_S,
        )
        assert {it.kafka for it in status.queries[0].sources} == {
            KafkaSource(cluster=job.kafka.cluster_id),
            KafkaSource(cluster=other.cluster_id),
        }
        assert status.failure is None
        job.stop()


def test_topic_that_does_not_exist_is_named_with_the_servers(job: DriverOnKafka) -> None:
    job.start()
    status = job.driver.wait_status("the failure", lambda now: now.failure is not None, START_S)
    assert status.failure is not None
    assert f"topic {job.topic!r} does not exist on {job.kafka.sasl_servers}" in status.failure.message
    job.kill()


def test_servers_that_do_not_answer_are_reported_before_spark_gives_up(job: DriverOnKafka) -> None:
    job.start(broker={"kafka.bootstrap.servers": "127.0.0.1:9"})
    status = job.driver.wait_status(
        "the problem", lambda now: any(it.source_problem is not None for it in now.queries), START_S
    )
    assert status.failure is None
    assert "no broker of 127.0.0.1:9 answers" in (status.queries[0].source_problem or "")
    job.kill()


def test_records_that_were_deleted_are_in_the_log_if_the_source_accepts_their_loss(job: DriverOnKafka) -> None:
    clients = job.kafka.clients
    clients.create_topic(job.topic, 1)
    clients.produce(job.topic, ["old"])
    job.start(source=ACCEPT_LOSS)
    job.driver.wait_status("the first record", lambda now: bool(job.values()) and now.queries[0].committed > 0, START_S)
    job.stop()
    clients.produce(job.topic, [f"new-{number}" for number in range(9)])
    clients.delete_records(job.topic, 0, before=5)
    job.restart(source=ACCEPT_LOSS)
    job.driver.wait_status("the other records", lambda _: "new-8" in job.values(), START_S)
    assert job.values() == ["new-4", "new-5", "new-6", "new-7", "new-8", "old"]
    assert (
        f"4 records of partition {job.topic}-0 have been lost: the brokers deleted the records from offset 1 to 4"
        in (job.driver.output())
    )
    job.stop()


COPY = """
import sys
from airflow_adaptive.job import AdaptiveJob

servers, source = sys.argv[1:]

def copy(spark, parallelism):
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    values = rows.option("startingOffsets", "earliest").load().select("value")
    written = values.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", f"{source}-copy")
    return written.outputMode("update").trigger(realTime="5 seconds")

AdaptiveJob(copy).run()
"""


@NEEDS_REAL_TIME_MODE
@pytest.mark.asyncio
async def test_records_that_were_deleted_end_a_job_in_real_time_mode(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    spark_cluster.add_worker(cores=2, memory_mb=2 * MEMORY_MB)
    for name in (topic, f"{topic}-copy"):
        kafka.clients.create_topic(name, 1)
    kafka.clients.produce(topic, ["a", "b"])
    job = LoopedJob(spark_cluster, tmp_path, COPY, (kafka.bootstrap_servers, topic), ParallelismRange(1, 1))
    async with job.running():
        await job.wait("the copies", lambda: kafka.clients.read(f"{topic}-copy") == ["a", "b"])
        await job.wait("a committed batch", lambda: bool(job.status()["queries"][0]["committed"]))
    kafka.clients.produce(topic, ["c"] * 9)
    kafka.clients.delete_records(topic, 0, before=6)
    async with job.running("2"):

        async def has_failed() -> bool:
            return bool(job.loop.state.failures)

        await wait_until_async(has_failed, START_S, "the failure")
        failure = job.loop.state.failures[0]
        assert failure.failure.error_class == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
        assert "delete the checkpoint of the query" in failure.failure.message
        assert "not recoverable" in failure.decision
        assert job.loop.state.restarts.attempts == 0
    await job.close()
