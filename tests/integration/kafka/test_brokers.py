"""The brokers of the tests behave as the tests on Kafka expect."""

from __future__ import annotations

from tests.support.kafka.cluster import KafkaCluster


def test_records_are_read_from_the_partition_to_which_they_were_written(kafka: KafkaCluster, topic: str) -> None:
    kafka.clients.create_topic(topic, 2)
    kafka.clients.produce(topic, ["a", "b"], partition=0)
    kafka.clients.produce(topic, ["c"], partition=1)
    assert kafka.clients.end_offsets(topic) == [2, 1]
    assert kafka.clients.read(topic) == ["a", "b", "c"]
    kafka.clients.add_partitions(topic, 3)
    kafka.clients.produce(topic, ["d"], partition=2)
    assert kafka.clients.end_offsets(topic) == [2, 1, 1]


def test_another_broker_leads_the_partitions_of_a_killed_broker(kafka_brokers: KafkaCluster, topic: str) -> None:
    kafka_brokers.clients.create_topic(topic, 1, replicas=3)
    kafka_brokers.clients.produce(topic, ["a"])
    leader = kafka_brokers.clients.leaders(topic)[0]
    kafka_brokers.brokers[leader - 1].kill()
    kafka_brokers.wait_for_brokers({1, 2, 3} - {leader})
    kafka_brokers.clients.produce(topic, ["b"])
    assert kafka_brokers.clients.read(topic) == ["a", "b"]
    assert kafka_brokers.clients.leaders(topic)[0] != leader
    kafka_brokers.brokers[leader - 1].start()
    kafka_brokers.wait_for_brokers({1, 2, 3})
