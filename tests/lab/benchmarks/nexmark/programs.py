"""Kafka's console producer and consumer: programs that write and read many records without much work for the machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from airflow_adaptive.local.distribution import find_java
from tests.support.jars import Packages

TOOLS: Final = Packages(
    "Kafka", ("org.apache.kafka:kafka-tools:4.1.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
)

IDLE_MS: Final = 10_000
"""The consumer ends if no record arrives for this time."""


@contextmanager
def producer(servers: str, topic: str) -> Iterator[IO[str]]:
    """Yield a text stream whose lines become records. At the end of the block, all records have been acknowledged."""
    arguments = ["--producer-property", "linger.ms=5", "--producer-property", "acks=all"]
    command = _command("ConsoleProducer", servers, topic, *arguments)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        yield process.stdin
        process.stdin.close()
    if process.returncode:
        raise RuntimeError(f"the console producer has ended with {process.returncode}")


def consumed(servers: str, topic: str, records: int) -> list[str]:
    """Return the first records of a topic, as lines: the time of the record, a tab, its value."""
    arguments = ["--from-beginning", "--max-messages", str(records), "--timeout-ms", str(IDLE_MS)]
    arguments += ["--property", "print.timestamp=true"]
    command = _command("consumer.ConsoleConsumer", servers, topic, *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _command(program: str, servers: str, topic: str, *arguments: str) -> list[str]:
    classpath = f"{TOOLS.jars[0].parent}/*"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
    java = [str(find_java() / "bin" / "java"), *options]
    return [*java, f"org.apache.kafka.tools.{program}", "--bootstrap-server", servers, "--topic", topic, *arguments]
