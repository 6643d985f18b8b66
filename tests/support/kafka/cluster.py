"""A Kafka cluster for tests: real brokers on free ports of loopback.

`python -m tests.support.kafka.cluster` runs a cluster until Ctrl-C. A guardian process ends the brokers and deletes their folder if the owner
process dies.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from airflow_adaptive.local.cluster import HOST
from airflow_adaptive.local.distribution import find_java
from airflow_adaptive.local.guardian import Guard
from airflow_adaptive.local.waiting import wait_until
from tests.support.kafka.broker import STOP_GRACE_S, KafkaBroker
from tests.support.kafka.clients import KafkaClients
from tests.support.kafka.jars import broker_classpath
from tests.support.kubernetes.certificates import ClusterCertificates

START_TIMEOUT_S: Final = 240.0


class KafkaCluster:
    """Brokers and the clients of the test.

    Attributes:
        brokers: brokers of the cluster; broker 1 is the first.
        cluster_id: id of the cluster.
        password: password of the user `USER` at the SASL addresses.
        ca: certificate of the authority, which clients of the SASL addresses trust.
    """

    def __init__(self, folder: Path, brokers: int, mark: str) -> None:
        """Format the storage of all brokers; no broker is started.

        Args:
            folder: folder of the cluster, which exists and is empty.
            brokers: number of brokers.
            mark: mark of the processes for the guardian.

        Raises:
            MissingJarsError: the jars of the broker are not in the cache.
        """
        self.password = secrets.token_hex()
        self.cluster_id = f"test{uuid.uuid4().hex[:18]}"  # 22 characters, as many as an id of Kafka has
        self._java = find_java() / "bin" / "java"
        self._classpath = broker_classpath()
        self.brokers = [KafkaBroker(number, folder / f"broker-{number}") for number in range(1, brokers + 1)]
        certificates = ClusterCertificates(folder / "certificates")
        self.ca = certificates.ca
        certificate = certificates.server("broker", [HOST], [])
        for broker in self.brokers:
            broker.format(
                self.brokers,
                java=self._java,
                classpath=self._classpath,
                password=self.password,
                certificate=certificate,
                mark=mark,
                cluster_id=self.cluster_id,
            )

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients without authentication."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def sasl_servers(self) -> str:
        """Addresses for clients that authenticate with SCRAM, over TLS."""
        return ",".join(broker.sasl_address for broker in self.brokers)

    @property
    def sasl_options(self) -> dict[str, str]:
        """Options of a source or a sink of Spark that authenticates with SCRAM over TLS, without `kafka.sasl.jaas.config`."""
        return {
            "kafka.bootstrap.servers": self.sasl_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self.ca),
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
        }

    @cached_property
    def clients(self) -> KafkaClients:
        """Clients of the cluster, without authentication."""
        return KafkaClients(self.bootstrap_servers, java=self._java, classpath=self._classpath)

    def start(self) -> None:
        """Start the brokers, and wait until each broker is in the cluster."""
        for broker in self.brokers:
            broker.start()
        self.wait_for_brokers({broker.number for broker in self.brokers})

    def wait_for_brokers(self, numbers: set[int]) -> None:
        """Wait until exactly these brokers are in the cluster.

        Raises:
            RuntimeError: a broker has ended. The message contains the end of its log.
        """

        def ready() -> bool:
            for number in numbers:
                self.brokers[number - 1].check()
            return self.clients.brokers() == numbers

        wait_until(ready, START_TIMEOUT_S, f"brokers {sorted(numbers)} of Kafka")

    def stop(self) -> None:
        """End the clients and the brokers."""
        if "clients" in vars(self):
            self.clients.close()
        for broker in self.brokers:
            broker.stop()


@contextmanager
def running_kafka(brokers: int = 1) -> Iterator[KafkaCluster]:
    """Run a cluster for the duration of the block.

    Raises:
        MissingJarsError: the jars of the broker are not in the cache.
    """
    folder, mark = Path(tempfile.mkdtemp(prefix="airflow-adaptive-kafka-")), uuid.uuid4().hex
    guard = Guard(mark, STOP_GRACE_S, folder)
    try:
        cluster = KafkaCluster(folder, brokers, mark)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
    finally:
        guard.end()


if __name__ == "__main__":
    with running_kafka(int(sys.argv[1]) if sys.argv[1:] else 1) as started:
        print(started.bootstrap_servers)
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("The cluster ends.")
