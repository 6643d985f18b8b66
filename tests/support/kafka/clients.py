"""Topics, producers and consumers for tests: the Java clients of the broker's jars, in a JVM of their own.

The JVM runs the gateway of Py4J, which belongs to PySpark, so that the tests need no other client of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaMember, launch_gateway
from py4j.protocol import STATIC_PREFIX, Py4JJavaError

KAFKA: Final = "org.apache.kafka"

BYTES: Final = f"{KAFKA}.common.serialization.String"

REQUEST_TIMEOUT_MS: Final = 10_000


class KafkaClients:
    """An admin client and a producer of one cluster, and consumers."""

    def __init__(self, bootstrap_servers: str, *, java: Path, classpath: str) -> None:
        """Start the JVM; the clients connect with their first request.

        Args:
            bootstrap_servers: addresses of the brokers.
            java: the program `java`.
            classpath: jars of the broker.
        """
        py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
        port, token = launch_gateway(
            classpath=f"{py4j}:{classpath}", java_path=str(java), javaopts=["-Xmx128m", "-XX:+UseSerialGC"],
            die_on_exit=True, enable_auth=True,
        )  # fmt: skip
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=parameters)
        self._servers = bootstrap_servers
        self._admin = self._class("clients.admin.Admin").create(self._settings())
        self._producer = self._class("clients.producer.KafkaProducer")(
            self._settings(
                {
                    "acks": "all",
                    "linger.ms": 5,
                    "key.serializer": f"{BYTES}Serializer",
                    "value.serializer": f"{BYTES}Serializer",
                }
            )
        )

    def close(self) -> None:
        """End the JVM."""
        self._gateway.shutdown()

    def brokers(self) -> set[int]:
        """Return the ids of the brokers that are in the cluster. Empty while no broker answers."""
        try:
            return {node.id() for node in self._admin.describeCluster().nodes().get().toArray()}
        except Py4JJavaError:
            return set()

    def create_topic(
        self, topic: str, partitions: int = 1, *, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic, and wait until it exists."""
        new = self._class("clients.admin.NewTopic")(topic, partitions, self._short(replicas)).configs(
            dict(settings or {})
        )
        self._admin.createTopics([new]).all().get()

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        wanted = self._class("clients.admin.NewPartitions").increaseTo(total)
        self._admin.createPartitions({topic: wanted}).all().get()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records."""
        self._admin.deleteTopics([topic]).all().get()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before an offset, as the brokers do when the retention has passed."""
        # Py4J does not find the static method itself, because an instance method has the same name.
        target = f"{STATIC_PREFIX}{KAFKA}.clients.admin.RecordsToDelete"
        before_offset = JavaMember("beforeOffset", None, target, self._gateway._gateway_client)
        self._admin.deleteRecords({self._partition(topic, partition): before_offset(before)}).all().get()

    def elect_preferred_leaders(self, topic: str) -> list[int]:
        """Move the leader of each partition to its first replica if that has all records, and return the leaders."""
        kind = self._gateway.jvm.org.apache.kafka.common.ElectionType.PREFERRED
        parts = {self._partition(topic, number) for number in range(len(self.leaders(topic)))}
        self._admin.electLeaders(kind, parts).partitions().get()
        return self.leaders(topic)

    def set_password(self, user: str, password: str) -> None:
        """Change the password of a user for SCRAM. Connections that exist expire later."""
        admin = self._class("clients.admin")
        mechanism = self._class("clients.admin.ScramMechanism").SCRAM_SHA_256
        upsertion = admin.UserScramCredentialUpsertion(user, admin.ScramCredentialInfo(mechanism, 4096), password)
        self._admin.alterUserScramCredentials([upsertion]).all().get()

    def leaders(self, topic: str) -> list[int]:
        """Return the id of the leader of each partition."""
        described = self._admin.describeTopics([topic]).allTopicNames().get().get(topic)
        return [part.leader().id() for part in described.partitions()]

    def end_offsets(self, topic: str) -> list[int]:
        """Return the end offset of each partition."""
        parts = [self._partition(topic, number) for number in range(len(self.leaders(topic)))]
        latest = self._class("clients.admin.OffsetSpec").latest()
        found = self._admin.listOffsets(dict.fromkeys(parts, latest)).all().get()
        return [found.get(part).offset() for part in parts]

    def produce(self, topic: str, values: Iterable[str], partition: int | None = None) -> None:
        """Write records, and wait until the brokers have them. Without a partition, the producer chooses partitions."""
        record = self._class("clients.producer.ProducerRecord")
        for value in values:
            self._producer.send(record(topic, value) if partition is None else record(topic, partition, None, value))
        self._producer.flush()

    @contextmanager
    def open_transaction(self, topic: str, values: Iterable[str]) -> Iterator[None]:
        """Write records in a transaction that is open during the block, and aborted in the end."""
        producer = self._class("clients.producer.KafkaProducer")(
            self._settings(
                {
                    "transactional.id": f"{topic}-transaction",
                    "key.serializer": f"{BYTES}Serializer",
                    "value.serializer": f"{BYTES}Serializer",
                }
            )
        )
        record = self._class("clients.producer.ProducerRecord")
        try:
            producer.initTransactions()
            producer.beginTransaction()
            for value in values:
                producer.send(record(topic, value))
            producer.flush()
            yield
            producer.abortTransaction()
        finally:
            producer.close()

    def read(self, topic: str) -> list[str]:
        """Return the values of all records that are committed, partition by partition."""
        ends = self.end_offsets(topic)
        consumer = self._class("clients.consumer.KafkaConsumer")(
            self._settings(
                {
                    "isolation.level": "read_committed",
                    "key.deserializer": f"{BYTES}Deserializer",
                    "value.deserializer": f"{BYTES}Deserializer",
                }
            )
        )
        try:
            return [value for number, end in enumerate(ends) for value in self._read(consumer, topic, number, end)]
        finally:
            consumer.close()

    def _read(self, consumer: Any, topic: str, number: int, end: int) -> list[str]:
        part = self._partition(topic, number)
        consumer.assign([part])
        consumer.seekToBeginning([part])
        second = self._gateway.jvm.java.time.Duration.ofSeconds(1)
        values: list[str] = []
        while consumer.position(part) < end:
            values += [record.value() for record in consumer.poll(second).records(part)]
        return values

    def _partition(self, topic: str, number: int) -> Any:
        return self._class("common.TopicPartition")(topic, number)

    def _class(self, name: str) -> Any:
        return getattr(self._gateway.jvm, f"{KAFKA}.{name}")

    def _short(self, number: int) -> Any:
        return self._gateway.jvm.java.lang.Short.valueOf(str(number))

    def _settings(self, settings: Mapping[str, object] | None = None) -> dict[str, object]:
        return {
            "bootstrap.servers": self._servers,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "default.api.timeout.ms": 3 * REQUEST_TIMEOUT_MS,
            "delivery.timeout.ms": 3 * REQUEST_TIMEOUT_MS,
            **(settings or {}),
        }
