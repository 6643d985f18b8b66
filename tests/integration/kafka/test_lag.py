"""The lag of a query behind a real broker, as a real driver reports it. The source authenticates with SCRAM over TLS."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive._core.protocol.sources import Shuffle
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import TIMEOUT_S
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.driver_on_kafka import DriverOnKafka, source_of

pytestmark = pytest.mark.timeout(1200)

START_S = 3 * TIMEOUT_S
"""For the start of a driver and its first batch, beside a broker."""


@pytest.fixture
def job(spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path) -> DriverOnKafka:
    kafka.clients.create_topic(topic, 2)
    return DriverOnKafka.create(spark_cluster, kafka, topic, tmp_path)


def lag(status: DriverStatus) -> tuple[int | None, float | None]:
    source = source_of(status)
    return (None, None) if source is None else (source.lag_rows, source.lag_s)


def limit(status: DriverStatus) -> int | None:
    source = source_of(status)
    return None if source is None else source.input_limit


def test_lag_grows_during_a_batch_and_while_no_driver_runs(job: DriverOnKafka) -> None:
    clients = job.kafka.clients
    clients.produce(job.topic, ["a"] * 5, partition=0)
    job.start()
    job.driver.wait_status("a poll without unread rows", lambda now: lag(now) == (0, 0.0), START_S)

    job.pause()
    clients.produce(job.topic, ["b"], partition=0)
    job.driver.wait_status("the batch that waits", lambda now: not now.queries[0].idle)
    clients.produce(job.topic, ["c"] * 3, partition=0)
    clients.produce(job.topic, ["d"], partition=1)

    def grows(now: DriverStatus) -> bool:
        rows, seconds = lag(now)
        return rows is not None and rows >= 4 and seconds is not None and seconds > 12

    source = source_of(job.driver.wait_status("a lag that grows without a committed batch", grows))
    assert source is not None
    assert (source.partitions, source.worst_partition, source.is_lag_minimum) == (2, f"{job.topic}-0", False)
    assert source.input_limit == 2
    assert source.topics[job.topic].retention_s == timedelta(days=7).total_seconds()
    assert [it.partition for it in source.partition_lags] == [f"{job.topic}-0", f"{job.topic}-1"]
    job.resume()
    job.driver.wait_status("no lag", lambda now: lag(now) == (0, 0.0))
    clients.add_partitions(job.topic, 3)
    status = job.driver.wait_status("the new partition", lambda now: limit(now) == 3, START_S)
    assert status.queries[0].shuffle == Shuffle.UNKNOWN
    job.stop()

    clients.produce(job.topic, ["e"] * 7, partition=1)
    job.pause()
    job.restart()
    status = job.driver.wait_status("the lag of the downtime", lambda now: now.epoch == 2 and lag(now)[0] == 7, START_S)
    seconds = lag(status)[1]
    assert seconds is not None
    assert seconds > 0
    job.resume()
    job.driver.wait_status("the rows of the downtime", lambda now: lag(now)[0] == 0 and now.queries[0].input_rows == 7)
    assert "cannot be" not in job.driver.output()
    assert job.kafka.password not in (job.driver.directory / "status.json").read_text() + job.driver.output()
    command_lines = [line for process in job.driver.processes() for line in process.cmdline()]
    assert command_lines
    assert not any(job.kafka.password in line for line in command_lines)
    job.stop()
