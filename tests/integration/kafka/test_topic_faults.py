"""Topics whose records disappear under a real job: the job refuses to continue, instead of skipping records."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import FailureReport
from airflow_adaptive._core.scheduler.policies.failure_handling import Failure, is_recoverable
from airflow_adaptive.job.queries.sources.topic_ids import FILE
from airflow_adaptive.local.cluster import LocalCluster
from tests.support.driver.driver_on_cluster import JOB, TIMEOUT_S
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.driver_on_kafka import DriverOnKafka

pytestmark = pytest.mark.timeout(1200)

START_S = 3 * TIMEOUT_S
"""For the start of a driver and its first batch, beside a broker."""

OLD, NEW = [f"old-{number}" for number in range(5)], [f"new-{number:02}" for number in range(20)]


@pytest.fixture
def job(spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path) -> DriverOnKafka:
    """A job that has read the topic, and runs."""
    kafka.clients.create_topic(topic, 1)
    kafka.clients.produce(topic, OLD)
    job = DriverOnKafka.create(spark_cluster, kafka, topic, tmp_path)
    job.start()
    file = job.driver.directory / "checkpoints" / JOB / FILE
    job.driver.wait_status("the old records", lambda _: job.values() == OLD and file.exists(), START_S)
    return job


def recreate(job: DriverOnKafka) -> None:
    """Create the topic again, with more records than the job has read: Spark itself would read the last 15 of them."""
    job.kafka.clients.delete_topic(job.topic)
    job.kafka.clients.create_topic(job.topic, 1)
    job.kafka.clients.produce(job.topic, NEW)


def require_refusal(job: DriverOnKafka) -> None:
    status = job.driver.wait_status("the refusal", lambda now: now.failure is not None, START_S)
    failure = status.failure
    assert failure is not None
    assert failure.error_class.endswith(".TopicRecreatedError")
    assert failure.message.startswith(f"topic {job.topic!r} was deleted and created again")
    require_final(failure)


def require_final(failure: FailureReport) -> None:
    """Require that the scheduler does not restart the job after this failure."""
    reported = Failure(error_class=failure.error_class, message=failure.message, causes=failure.causes)
    assert not is_recoverable(reported)


def test_job_refuses_to_start_on_a_topic_that_was_created_again(job: DriverOnKafka) -> None:
    job.stop()
    committed = job.driver.batches("commits")
    recreate(job)
    job.restart()
    require_refusal(job)
    assert job.driver.batches("commits") == committed
    assert job.values() == OLD


@pytest.mark.long
def test_job_fails_when_its_topic_is_created_again(job: DriverOnKafka) -> None:
    recreate(job)
    require_refusal(job)


@pytest.mark.long
@pytest.mark.parametrize("partition", [0, 1])
def test_job_fails_when_the_brokers_have_deleted_records_that_a_function_has_not_read(
    job: DriverOnKafka, partition: int
) -> None:
    """Partition 0 has been read up to offset 6; partition 1 is new."""
    clients = job.kafka.clients
    job.driver.wait_status("the end of the first batch", lambda now: now.queries[0].committed > 0, START_S)
    job.pause()
    clients.produce(job.topic, ["last"])
    job.driver.wait_status("the batch that waits", lambda _: "last" in job.values(), START_S)
    clients.add_partitions(job.topic, 2)
    clients.produce(job.topic, NEW, partition)
    clients.delete_records(job.topic, partition, before=10)
    job.resume()
    status = job.driver.wait_status("the refusal", lambda now: now.failure is not None, START_S)
    failure = status.failure
    assert failure is not None
    assert failure.error_class.startswith("KAFKA_DATA_LOSS.")
    require_final(failure)
    assert job.values() == ["last", *OLD]
