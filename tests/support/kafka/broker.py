"""One broker of a Kafka cluster for tests: one process, which is both broker and controller (KRaft)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from airflow_adaptive.local import guardian
from airflow_adaptive.local.cluster import HOST, free_port
from tests.support.kubernetes.certificates import KeyPair

USER: Final = "tests"

STOP_GRACE_S: Final = 20.0

JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

LOG_TAIL_LINES: Final = 15

REAUTHENTICATION_MS: Final = 10_000
"""Time after which the authentication of a connection expires."""

LOG4J: Final = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class KafkaBroker:
    """A broker. A killed broker can be started again, with the same ports and the same records.

    Attributes:
        number: id of the broker, starting at 1.
        address: address for clients without authentication.
        sasl_address: address for clients that authenticate with SCRAM-SHA-256, with TLS.
        controller: address for the other brokers.
    """

    def __init__(self, number: int, folder: Path) -> None:
        """Choose free ports; nothing is started.

        Args:
            number: id of the broker, starting at 1.
            folder: folder of the broker, which does not exist.
        """
        folder.mkdir()
        self.number = number
        self.address, self.sasl_address, self.controller = (f"{HOST}:{free_port()}" for _ in range(3))
        self.log = folder / "log"
        self._folder = folder
        self._environment: Mapping[str, str] = {}
        self._java: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None

    def format(
        self,
        brokers: Sequence[KafkaBroker],
        *,
        java: Path,
        classpath: str,
        password: str,
        certificate: KeyPair,
        mark: str,
        cluster_id: str,
    ) -> None:
        """Format the storage of the broker, and create the user `USER`.

        Args:
            brokers: all brokers of the cluster.
            java: the program `java`.
            classpath: jars of the broker.
            password: password of the user.
            certificate: certificate of the broker.
            mark: mark of the processes for the guardian.
            cluster_id: id of the cluster.
        """
        self._environment = {**os.environ, guardian.MARK_VARIABLE: mark}
        self._write("log4j2.properties", LOG4J)
        self._write("broker.pem", _pem(certificate))
        self._write("server.properties", "\n".join(f"{key}={value}" for key, value in self._settings(brokers).items()))
        log4j = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        self._java = [str(java), *JVM_OPTIONS, log4j, "-cp", classpath]
        scram = f"SCRAM-SHA-256=[name={USER},password={password}]"
        command = ("format", "-t", cluster_id, "-c", self._properties, "--add-scram", scram)
        self._process = self._run("kafka.tools.StorageTool", *command)
        if self._process.wait() != 0:
            self.check()

    def start(self) -> None:
        """Start the process. `KafkaCluster` waits until the broker answers."""
        self._process = self._run("kafka.Kafka", self._properties)

    def stop(self) -> None:
        """End the process in order, so that another broker becomes the leader of its partitions. A killed or frozen process ends too."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        process = self._running()
        process.kill()
        process.wait(STOP_GRACE_S)

    def freeze(self) -> None:
        """Stop the execution of the process: it keeps its connections and does not answer."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue after `freeze`."""
        self._running().send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise an error with the end of the log if the process has ended."""
        code = self._running().poll()
        if code is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
            raise RuntimeError(f"broker {self.number} ended with exit code {code}; {self.log} ends with:\n{tail}")

    @property
    def _properties(self) -> str:
        return str(self._folder / "server.properties")

    def _settings(self, brokers: Sequence[KafkaBroker]) -> dict[str, object]:
        copies = len(brokers)
        return {
            "process.roles": "broker,controller",
            "node.id": self.number,
            "controller.quorum.voters": ",".join(f"{broker.number}@{broker.controller}" for broker in brokers),
            "listeners": f"PLAIN://{self.address},SASL://{self.sasl_address},CONTROLLER://{self.controller}",
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,SASL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAIN",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": REAUTHENTICATION_MS,
            "listener.name.sasl.ssl.keystore.type": "PEM",
            "listener.name.sasl.ssl.keystore.location": self._folder / "broker.pem",
            "log.dirs": self._folder / "data",
            "num.partitions": 1,
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            "auto.create.topics.enable": "false",
            "log.retention.check.interval.ms": 1000,
            "log.initial.task.delay.ms": 500,
        }  # fmt: skip

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self._java, *command], cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self._environment, start_new_session=True,
            )  # fmt: skip

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"broker {self.number} was not started")
        return self._process


def _pem(pair: KeyPair) -> str:
    """Return a key and its certificate as Kafka reads them from one file."""
    key = load_pem_private_key(pair.key.read_bytes(), password=None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pkcs8.decode() + pair.certificate.read_text()
