"""How often a real job writes each record of a topic: records are counted at the sinks, after drivers were killed within a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import DriverState
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.driver_on_kafka import DriverOnKafka
from tests.support.kafka.jars import CONNECTOR

pytestmark = pytest.mark.timeout(1200)

FAILS_AFTER_A_REPEATED_BATCH = CONNECTOR.names[0].endswith(":4.1.1")
"""Spark's connector 4.1.1 fails a query that has committed a repeated batch (SPARK-57438), see docs/reference/compatibility.md."""

START_S = 3 * TIMEOUT_S
"""For the start of a driver and its first batch, beside a broker."""


def test_kafka_sink_repeats_an_interrupted_batch_and_an_idempotent_sink_does_not(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    clients, sink = kafka.clients, f"{topic}-sink"
    first, second = [f"a-{number}" for number in range(10)], [f"b-{number}" for number in range(5)]
    clients.create_topic(topic, 2)
    clients.create_topic(sink, 1)
    clients.produce(topic, first)
    job = DriverOnKafka.create(spark_cluster, kafka, topic, tmp_path)
    job.pause()
    job.start(sink=sink)
    wait_until(lambda: sorted(clients.read(sink)) == first, START_S, "the records of the first batch")
    job.kill()
    assert job.driver.batches("commits") == []

    job.resume()
    clients.produce(topic, second)
    job.restart(sink=sink)
    if FAILS_AFTER_A_REPEATED_BATCH:
        wait_until(lambda: (now := job.driver.status()) and now.state is DriverState.FAILED, START_S, "the failure")
        assert job.driver.batches("commits") == [0]
        job.stop()
        job.restart(sink=sink)
    wait_until(lambda: set(clients.read(sink)) == {*first, *second}, START_S, "all records")
    job.stop()
    assert sorted(clients.read(sink)) == sorted([*first, *first, *second])
    assert job.values() == [*first, *second]
