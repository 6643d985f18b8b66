"""The end offsets that a loop reads while no driver runs, from a real broker with SCRAM over TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress

import pytest

from airflow_adaptive._airflow.process.process_resources import ProcessResources
from airflow_adaptive._core.ports import SourceUnreachableError
from airflow_adaptive._core.protocol.sources import KafkaSource
from airflow_adaptive.local.waiting import wait_until
from tests.support.kafka.broker import USER
from tests.support.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.timeout(600)

TIMEOUT_S = 240.0


def connection(kafka: KafkaCluster, password: str) -> str:
    extra = {
        "bootstrap.servers": kafka.sasl_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka.ca),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": password,
    }
    return json.dumps({"conn_type": "kafka", "extra": extra})


async def read(
    kafka: KafkaCluster, *topics: str, pattern: str | None = None, committed: bool = False
) -> Mapping[str, Mapping[int, int]]:
    source = KafkaSource(cluster=kafka.cluster_id, pattern=pattern, committed=committed)
    async with ProcessResources().brokers("kafka_test") as brokers:
        assert brokers is not None
        return await brokers.end_offsets(source, frozenset(topics))


def wait_for_offsets(kafka: KafkaCluster, topic: str, expected: Mapping[int, int]) -> None:
    """Wait until the brokers report the end offsets. A broker that has just started, or continues, refuses requests for a moment."""

    def are_read() -> bool:
        with suppress(SourceUnreachableError):
            return asyncio.run(read(kafka, topic)) == {topic: expected}
        return False

    wait_until(are_read, TIMEOUT_S, f"the end offsets of {topic}")


def test_end_offsets_are_read_with_the_credentials_of_the_connection(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 2)
    kafka.clients.produce(topic, ["a", "b"], partition=1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))
    wait_for_offsets(kafka, topic, {0: 0, 1: 2})
    with pytest.raises(SourceUnreachableError, match="topic 'no-such-topic' cannot be read: .*[Uu]nknown topic"):
        asyncio.run(read(kafka, "no-such-topic"))


def test_new_topics_of_a_pattern_are_read_and_open_transactions_on_request(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    kafka.clients.create_topic(f"{topic}-new", 2)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))
    wait_for_offsets(kafka, topic, {0: 0})
    with kafka.clients.open_transaction(topic, ["a", "b"]):
        wait_for_offsets(kafka, topic, {0: 2})
        committed = asyncio.run(read(kafka, topic, pattern=f"{topic}.*", committed=True))
    assert committed == {topic: {0: 0}, f"{topic}-new": {0: 0, 1: 0}}


def test_connection_to_another_cluster_is_an_error(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))
    wait_for_offsets(kafka, topic, {0: 0})

    async def read_other() -> None:
        async with ProcessResources().brokers("kafka_test") as brokers:
            assert brokers is not None
            await brokers.end_offsets(KafkaSource(cluster="other"), frozenset({topic}))

    with pytest.raises(SourceUnreachableError, match=f"the connection leads to the cluster {kafka.cluster_id}"):
        asyncio.run(read_other())


def test_refused_credentials_are_an_error_without_the_credentials(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, "quiet-password"))
    with pytest.raises(SourceUnreachableError) as raised:
        asyncio.run(read(kafka, topic))
    assert "the brokers cannot be read: " in str(raised.value)
    assert "quiet-password" not in str(raised.value)


def test_frozen_broker_does_not_block_the_event_loop(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))

    async def read_beside_other_work() -> int:
        reading = asyncio.create_task(read(kafka, topic))
        cycles = 0
        while not (await asyncio.wait({reading}, timeout=0.01))[0]:
            cycles += 1
        with pytest.raises(SourceUnreachableError):
            await reading
        return cycles

    kafka.brokers[0].freeze()
    try:
        assert asyncio.run(read_beside_other_work()) > 50
    finally:
        kafka.brokers[0].thaw()
    wait_for_offsets(kafka, topic, {0: 0})
