"""The end offsets that a loop reads while no driver runs, from a real broker with SCRAM over TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress

import pytest

from airflow_adaptive.launch.process_resources import ProcessResources
from airflow_adaptive.local.waiting import wait_until
from airflow_adaptive.ports import SourceUnreachableError
from tests.support.kafka.broker import USER
from tests.support.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.timeout(600)

TIMEOUT_S = 60.0


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


async def read(*topics: str) -> Mapping[str, Mapping[int, int]]:
    async with ProcessResources().brokers("kafka_test") as brokers:
        assert brokers is not None
        return await brokers.end_offsets(topics)


def wait_for_offsets(topic: str, expected: Mapping[int, int]) -> None:
    """Wait until the brokers report the end offsets. A broker that has just started, or continues, refuses requests for a moment."""

    def are_read() -> bool:
        with suppress(SourceUnreachableError):
            return asyncio.run(read(topic)) == {topic: expected}
        return False

    wait_until(are_read, TIMEOUT_S, f"the end offsets of {topic}")


def test_end_offsets_are_read_with_the_credentials_of_the_connection(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 2)
    kafka.clients.produce(topic, ["a", "b"], partition=1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))
    wait_for_offsets(topic, {0: 0, 1: 2})
    with pytest.raises(SourceUnreachableError, match="topic 'no-such-topic' cannot be read: .*[Uu]nknown topic"):
        asyncio.run(read("no-such-topic"))


def test_refused_credentials_are_an_error_without_the_credentials(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, "quiet-password"))
    with pytest.raises(SourceUnreachableError) as raised:
        asyncio.run(read(topic))
    assert topic in str(raised.value)
    assert "quiet-password" not in str(raised.value)


def test_frozen_broker_does_not_block_the_event_loop(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.clients.create_topic(topic, 1)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", connection(kafka, kafka.password))

    async def read_beside_other_work() -> int:
        reading = asyncio.create_task(read(topic))
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
    wait_for_offsets(topic, {0: 0})
