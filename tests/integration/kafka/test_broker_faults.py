"""Faults of the brokers under a real job. Each record of the topic is read, and written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_adaptive._core.protocol.documents import DriverStatus
from airflow_adaptive.local.cluster import LocalCluster
from airflow_adaptive.local.waiting import wait_until
from tests.support.driver.driver_on_cluster import TIMEOUT_S
from tests.support.kafka.broker import USER
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.driver_on_kafka import DriverOnKafka

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

START_S = 3 * TIMEOUT_S
"""For the start of a driver and its first batch, beside brokers."""


def records(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(10)]


def running_job(cluster: LocalCluster, kafka: KafkaCluster, topic: str, root: Path) -> DriverOnKafka:
    """Return a job that has read the records `a`."""
    kafka.clients.create_topic(topic, 2, replicas=len(kafka.brokers))
    kafka.clients.produce(topic, records("a"))
    job = DriverOnKafka.create(cluster, kafka, topic, root)
    job.start()
    require_values(job, "a")
    return job


def require_values(job: DriverOnKafka, *kinds: str) -> None:
    """Wait until the job has written the records of these kinds, each once."""
    wanted = sorted(record for kind in kinds for record in records(kind))
    job.driver.wait_status("the records", lambda _: len(job.values()) >= len(wanted), START_S)
    assert job.values() == wanted


def test_job_continues_while_brokers_are_killed_and_leaders_move(
    spark_cluster: LocalCluster, kafka_brokers: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    kafka, clients = kafka_brokers, kafka_brokers.clients
    job = running_job(spark_cluster, kafka, topic, tmp_path)
    leaders = clients.leaders(topic)
    kafka.brokers[leaders[0] - 1].kill()
    kafka.wait_for_brokers({1, 2, 3} - {leaders[0]})
    clients.produce(topic, records("b"))
    require_values(job, "a", "b")

    kafka.brokers[leaders[0] - 1].start()
    kafka.wait_for_brokers({1, 2, 3})
    wait_until(lambda: clients.elect_preferred_leaders(topic) == leaders, START_S, "the first leaders")
    clients.produce(topic, records("c"))
    require_values(job, "a", "b", "c")
    status = job.driver.status()
    assert status is not None
    assert status.failure is None
    job.stop()


def test_expired_authentication_fails_the_query_and_loses_no_record(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    job = running_job(spark_cluster, kafka, topic, tmp_path)
    kafka.clients.set_password(USER, "another-password")
    try:
        status = job.driver.wait_status("the failure", lambda now: now.failure is not None, START_S)
        require_refusal(job, status)
        job.kill()
    finally:
        kafka.clients.set_password(USER, kafka.password)
    kafka.clients.produce(topic, records("b"))
    job.restart()
    require_values(job, "a", "b")
    job.stop()


def test_refused_credentials_fail_the_query(
    spark_cluster: LocalCluster, kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    kafka.clients.create_topic(topic, 1)
    job = DriverOnKafka.create(spark_cluster, kafka, topic, tmp_path)
    job.start(password="quiet-password")
    status = job.driver.wait_status("the failure", lambda now: now.failure is not None, START_S)
    require_refusal(job, status)
    assert "quiet-password" not in (job.driver.directory / "status.json").read_text()
    job.kill()


def require_refusal(job: DriverOnKafka, status: DriverStatus) -> None:
    failure = status.failure
    assert failure is not None
    assert "SaslAuthenticationException" in " ".join((failure.error_class, *failure.causes))
    assert job.kafka.password not in (job.driver.directory / "status.json").read_text()
